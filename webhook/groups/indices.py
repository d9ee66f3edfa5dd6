"""A shard index, and the number of shards of a shard group, as people write them."""

from typing import Final

INDEX_LIMIT: Final = 1 << 20
"""Shard indices are below this number."""

_DIGITS: Final = len(str(INDEX_LIMIT))


def read_index(text: str) -> int | None:
    """Return a shard index, or None for a text that is none: decimal, without sign or leading
    zeros, below the limit.
    """
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > _DIGITS
        or (text[0] == "0" and text != "0")
    ):
        return None
    index = int(text)
    return index if index < INDEX_LIMIT else None


def read_count(text: str) -> int | None:
    """Return how many shards a group has, or None for a text that is no such number: as an index is
    written, but from 1 to the limit.
    """
    if text == str(INDEX_LIMIT):
        return INDEX_LIMIT
    return read_index(text) or None
