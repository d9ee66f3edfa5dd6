"""A shard index, and the number of shards of a shard group, as people write them."""

from typing import Final

from webhook.kube.numbers import read_number

INDEX_LIMIT: Final = 1 << 20
"""Shard indices are below this number."""


def read_index(text: str) -> int | None:
    """Return a shard index, or None for a text that is none: decimal, without sign or leading
    zeros, below the limit.
    """
    return read_number(text, INDEX_LIMIT - 1)


def read_count(text: str) -> int | None:
    """Return how many shards a group has, or None for a text that is no such number: as an index is
    written, but from 1 to the limit.
    """
    return read_number(text, INDEX_LIMIT) or None
