"""The cache of values that several requests need: its limit and its lifetime."""

from webhook.dashboard.rights import Shared


async def test_of_too_many_values_the_one_that_was_requested_longest_ago_is_computed_again() -> (
    None
):
    computed: list[str] = []

    shared: Shared[str, str] = Shared(2, 60.0, lambda: 0.0)

    async def get(key: str) -> None:
        async def compute() -> str:
            computed.append(key)
            return key

        assert await shared.get(key, compute) == key

    for key in ("a", "b", "a", "c", "a", "b"):
        await get(key)
    assert computed == ["a", "b", "c", "b"]


async def test_a_value_is_computed_again_when_its_lifetime_is_over() -> None:
    now, computed = 0.0, 0

    async def compute() -> None:
        nonlocal computed
        computed += 1

    shared: Shared[str, None] = Shared(2, 60.0, lambda: now)
    for now in (0.0, 59.0, 60.0, 61.0):  # noqa: B007 - the clock reads it
        await shared.get("a", compute)
    assert computed == 2
