"""The cache of derived values: bounded in bytes, in total and per namespace."""

from sys import getsizeof

from hypothesis import given
from hypothesis import strategies as st

from webhook.api.tenant_cache import TenantCache

KIB = 1024


def test_a_value_is_returned_until_it_is_removed() -> None:
    cache: TenantCache[str, int] = TenantCache(64 * KIB)
    cache.put("ns", "a", 1, 10)
    assert (cache.get("ns", "a"), cache.get("ns", "b"), cache.get("other", "a")) == (1, None, None)
    cache.remove("ns", "a")
    cache.remove("ns", "a")
    assert (cache.get("ns", "a"), cache.size, len(cache)) == (None, 0, 0)


def test_the_oldest_values_of_a_namespace_are_dropped() -> None:
    cache: TenantCache[int, int] = TenantCache(64 * KIB)
    cache.put("small", 0, 0, KIB)
    for number in range(100):
        cache.put("large", number, number, KIB)
    assert (cache.get("large", 0), cache.get("large", 99)) == (None, 99)
    assert cache.get("small", 0) == 0
    assert cache.size <= 64 * KIB // 4 + 2 * KIB


def test_a_value_that_exceeds_the_share_of_a_namespace_is_not_stored() -> None:
    cache: TenantCache[str, int] = TenantCache(64 * KIB)
    cache.put("ns", "a", 1, 10)
    cache.put("ns", "a", 2, 32 * KIB)
    assert (cache.get("ns", "a"), cache.size) == (None, 0)
    cache.put("ns", "b", 1, 0)
    entry_bytes = cache.size - getsizeof("ns")
    most = cache.namespace_bytes_max - entry_bytes
    cache.put("ns", "b", 1, most + 1)
    assert cache.get("ns", "b") is None
    cache.put("ns", "b", 1, most)
    assert cache.get("ns", "b") == 1


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9), st.integers(0, 5 * KIB))))
def test_the_sum_is_that_of_the_values(puts: list[tuple[str, int, int]]) -> None:
    cache: TenantCache[int, int] = TenantCache(16 * KIB)
    for namespace, key, size in puts:
        cache.put(namespace, key, size, size)
        assert cache.size <= cache.bytes_max
    for namespace in "abcdefgh":
        for key in range(10):
            cache.remove(namespace, key)
    assert (cache.size, len(cache)) == (0, 0)
