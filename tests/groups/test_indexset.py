"""The bitset behaves like a plain set, across its words of 1,024 bits."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.groups.taken_indices import IndexSet

EDGES = st.sampled_from([0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 3071, 5000])
INDICES = st.one_of(st.integers(0, 12), EDGES)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.booleans(), INDICES, st.just(1)),
        st.tuples(st.booleans(), EDGES, st.integers(1, 2100)),
    ),
    max_size=40,
)


@given(CHANGES)
def test_it_answers_like_a_plain_set(changes: list[tuple[bool, int, int]]) -> None:
    indices, model = IndexSet(), set[int]()
    for adding, start, length in changes:
        for index in range(start, start + length):
            (indices.add if adding else indices.discard)(index)
        (model.update if adding else model.difference_update)(range(start, start + length))
        assert indices.lowest() == min(model, default=None)
        assert indices.lowest_absent() == min(set(range(len(model) + 1)) - model)


def test_a_full_word_is_skipped_and_a_hole_in_it_is_found() -> None:
    indices = IndexSet()
    for index in range(3000):
        indices.add(index)
    assert indices.lowest_absent() == 3000
    indices.discard(1500)
    assert indices.lowest_absent() == 1500
    indices.add(1500)
    assert indices.lowest_absent() == 3000


def test_an_empty_set_has_no_lowest_index() -> None:
    assert IndexSet().lowest() is None
    assert IndexSet().lowest_absent() == 0
