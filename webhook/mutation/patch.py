"""A JSON Patch as an AdmissionReview carries it: the base64 of its JSON, of which only a host's numbers are written anew."""

from binascii import b2a_base64
from collections.abc import Sequence
from typing import Final

import msgspec

from webhook.mutation.fold import Operation, encode
from webhook.mutation.numbered import Numbered

_HOLE: Final = b"\x00"
"""Stands for a number: JSON has no such byte, for it escapes what is below a blank."""


class SharedPatch:
    """The end of the patches of a replica's hosts: operations that follow those of one host."""

    __slots__ = ("_operations", "_tail")

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._tail = _base64(b"," + encode(operations)[1:] if operations else b"]")

    def after(self, operations: Sequence[Operation]) -> bytes | None:
        """Return the base64 of the patch with these operations first, or None when there are no operations at all."""
        if operations:
            return self.behind(encode(operations)[:-1])
        return _base64(encode(self._operations)) if self._operations else None

    def behind(self, head: bytes) -> bytes:
        """Return the base64 of the patch that begins with `head`: the JSON of a list of operations, not closed."""
        # Base64 turns three bytes into four characters, so a head of whole threes can stand before any tail; JSON allows blanks.
        return _base64(head + b" " * (-len(head) % 3)) + self._tail


class NumberedPatch:
    """The patches of all hosts of a replica, whose own operations differ in nothing but numbers."""

    __slots__ = ("_constant", "_numbers", "_pieces", "_same", "_shared")

    def __init__(self, own: Sequence[Operation], shared: SharedPatch) -> None:
        text, self._numbers = _open(own)
        self._pieces = text[:-1].split(_HOLE)
        self._same = all(number.step == 1 and number.first == 0 for number in self._numbers)
        self._shared = shared
        self._constant = None if self._numbers else shared.after(own)

    def of(self, host: int) -> bytes | None:
        """Return the base64 of the patch of one host, or None when there are no operations at all."""
        if not self._numbers:
            return self._constant
        if self._same:
            return self._shared.behind((b"%d" % host).join(self._pieces))
        digits = [b"%d" % (host * number.step + number.first) for number in self._numbers]
        return self._shared.behind(b"".join([part for pair in zip(self._pieces, (*digits, b""), strict=True) for part in pair]))


def _base64(text: bytes) -> bytes:
    return b2a_base64(text, newline=False)


def _open(operations: Sequence[Operation]) -> tuple[bytes, list[Numbered]]:
    """Return the JSON of operations with a hole in place of each number, and what fills the holes, in order."""
    found: list[Numbered] = []

    def leave_open(value: object) -> msgspec.Raw:
        if not isinstance(value, Numbered):
            raise NotImplementedError
        found.append(value)
        return msgspec.Raw(b"%b%b" % (msgspec.json.encode(value.prefix)[:-1], _HOLE + b'"'))

    return msgspec.json.Encoder(enc_hook=leave_open).encode(operations), found
