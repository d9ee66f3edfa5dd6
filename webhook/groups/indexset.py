"""A set of integers with constant-time access to the lowest member and the lowest absent
integer.
"""

from typing import Final

_BITS: Final = 1024
_FULL: Final = (1 << _BITS) - 1


class IndexSet:
    """A bitset of two levels: words of 1,024 bits, and which words have any bit, and which have
    all.

    Operations take constant time below a million members; with a flat integer, they would take
    linear time.
    """

    __slots__ = ("_any", "_full", "_words")

    def __init__(self) -> None:
        self._words: list[int] = []
        self._any = 0
        self._full = 0

    def add(self, index: int) -> None:
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words):
            words.extend([0] * (number + 1 - len(words)))
        word = words[number] = words[number] | 1 << bit
        self._any |= 1 << number
        if word == _FULL:
            self._full |= 1 << number

    def discard(self, index: int) -> None:
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words) or not words[number] >> bit & 1:
            return
        word = words[number] = words[number] & ~(1 << bit)
        self._full &= ~(1 << number)
        if not word:
            self._any &= ~(1 << number)

    def lowest(self) -> int | None:
        if not self._any:
            return None
        number = lowest_bit(self._any)
        return number * _BITS + lowest_bit(self._words[number])

    def lowest_absent(self) -> int:
        number = lowest_bit(~self._full)
        if number >= len(self._words):
            return number * _BITS
        return number * _BITS + lowest_bit(~self._words[number])


def lowest_bit(bits: int) -> int:
    """Return the position of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1
