"""Sets of replica indices."""

from collections.abc import Iterable, Iterator
from typing import Final

_BLOCK: Final = 512
_FULL_BLOCK: Final = (1 << _BLOCK) - 1


def lowest_bit(bits: int) -> int:
    """Return the position of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


class Indices:
    """A set of indices, as bit masks of blocks: a large index does not take the memory of all lower
    ones. Iteration is in ascending order.
    """

    __slots__ = ("_blocks",)

    def __init__(self, indices: Iterable[int] = ()) -> None:
        self._blocks: dict[int, int] = {}
        for index in indices:
            self.add(index)

    def add(self, index: int) -> None:
        block, bit = divmod(index, _BLOCK)
        self._blocks[block] = self._blocks.get(block, 0) | 1 << bit

    def discard(self, index: int) -> None:
        block, bit = divmod(index, _BLOCK)
        mask = self._blocks.pop(block, 0) & ~(1 << bit)
        if mask:
            self._blocks[block] = mask

    def __contains__(self, index: int) -> bool:
        block, bit = divmod(index, _BLOCK)
        return bool(self._blocks.get(block, 0) >> bit & 1)

    def __len__(self) -> int:
        return sum(map(int.bit_count, self._blocks.values()))

    def __iter__(self) -> Iterator[int]:
        for block in sorted(self._blocks):
            mask = self._blocks[block]
            while mask:
                yield block * _BLOCK + lowest_bit(mask)
                mask &= mask - 1

    def __or__(self, other: "Indices") -> "Indices":
        union = Indices()
        union._blocks = dict(self._blocks)
        for block, mask in other._blocks.items():
            union._blocks[block] = union._blocks.get(block, 0) | mask
        return union

    def __sub__(self, other: "Indices") -> "Indices":
        difference = Indices()
        for block, mask in self._blocks.items():
            if rest := mask & ~other._blocks.get(block, 0):
                difference._blocks[block] = rest
        return difference

    @property
    def highest(self) -> int:
        """Return the highest index, or -1."""
        if not self._blocks:
            return -1
        block = max(self._blocks)
        return block * _BLOCK + self._blocks[block].bit_length() - 1

    @property
    def lowest_absent(self) -> int:
        block = 0
        while self._blocks.get(block) == _FULL_BLOCK:
            block += 1
        return block * _BLOCK + lowest_bit(~self._blocks.get(block, 0))
