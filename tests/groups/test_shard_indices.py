"""Texts that are shard indices, and texts that are numbers of shards."""

import pytest

from webhook.groups.annotations import INDEX_LIMIT, read_count, read_index


@pytest.mark.parametrize("text", ["0", "7", "10", str(INDEX_LIMIT - 1)])
def test_a_decimal_number_is_an_index(text: str) -> None:
    assert read_index(text) == int(text)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "00", "01", " 1", "1.0", "1e3", "0x1", "٣", "²", str(INDEX_LIMIT), "9" * 5000],
)
def test_everything_else_is_none(text: str) -> None:
    assert read_index(text) is None


@pytest.mark.parametrize("text", ["1", "8", str(INDEX_LIMIT)])
def test_a_group_has_one_shard_to_as_many_as_there_are_indices(text: str) -> None:
    assert read_count(text) == int(text)


@pytest.mark.parametrize("text", ["", "0", "08", "-1", str(INDEX_LIMIT + 1), "9" * 5000])
def test_no_other_text_is_a_number_of_shards(text: str) -> None:
    assert read_count(text) is None
