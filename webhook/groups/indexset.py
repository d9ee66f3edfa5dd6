"""A set of small integers that answers "the lowest in it" and "the lowest not in it" at once,
however large it is.
"""

from typing import Final

_BITS: Final = 1024
_FULL: Final = (1 << _BITS) - 1


class IndexSet:
    """A bitset of two levels: words of 1,024 bits, and which words have any bit, and which have
    them all.

    Every operation costs the same below a million members; a flat integer costs more with each
    member.
    """

    __slots__ = ("_any", "_full", "_words")

    def __init__(self) -> None:
        self._words: list[int] = []
        self._any = 0
        self._full = 0

    def add(self, index: int) -> None:
        """Put `index` in; nothing happens when it is there."""
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words):
            words.extend([0] * (number + 1 - len(words)))
        word = words[number] = words[number] | 1 << bit
        self._any |= 1 << number
        if word == _FULL:
            self._full |= 1 << number

    def discard(self, index: int) -> None:
        """Take `index` out; nothing happens when it is not there."""
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words) or not words[number] >> bit & 1:
            return
        word = words[number] = words[number] & ~(1 << bit)
        self._full &= ~(1 << number)
        if not word:
            self._any &= ~(1 << number)

    def lowest(self) -> int | None:
        """Return the lowest index in the set, or None when it is empty."""
        if not self._any:
            return None
        number = lowest_bit(self._any)
        return number * _BITS + lowest_bit(self._words[number])

    def lowest_absent(self) -> int:
        """Return the lowest index that is not in the set."""
        number = lowest_bit(~self._full)
        if number >= len(self._words):
            return number * _BITS
        return number * _BITS + lowest_bit(~self._words[number])


def lowest_bit(bits: int) -> int:
    """Return the place of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1
