"""A JSON Patch as an AdmissionReview carries it: the base64 of its JSON, of which only a host's numbers are written anew."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import msgspec

from webhook.mutation.fold import Operation
from webhook.mutation.host_text import HostText

NOTHING: Final = b"[]"
"""The JSON of no operations."""

_HOLE: Final = b"\x00"
"""Stands for a number: JSON has no such byte, for it escapes what is below a blank."""


class SharedPatch:
    """The end of the patches of a replica's hosts: operations that follow those of one host, as the JSON of their list."""

    __slots__ = ("_tail", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._tail = b64encode(b"]" if text == NOTHING else b"," + text[1:])

    def after(self, text: bytes) -> bytes | None:
        """Return the base64 of the patch with the operations of this list first, or None when there are no operations at all."""
        if text != NOTHING:
            return self.behind(text[:-1])
        return None if self._text == NOTHING else b64encode(self._text)

    def behind(self, head: bytes) -> bytes:
        """Return the base64 of the patch that begins with `head`: the JSON of a list of operations, not closed."""
        # Base64 turns three bytes into four characters, so a head of whole threes can stand before any tail; JSON allows blanks.
        return b64encode(head + b" " * (-len(head) % 3)) + self._tail


class NumberedPatch:
    """The patches of all hosts of a replica, whose own operations differ in nothing but numbers; `own` is left open for these."""

    __slots__ = ("_constant", "_numbers", "_pieces", "_same", "_shared")

    def __init__(self, own: bytes, numbers: list[HostText], shared: SharedPatch) -> None:
        self._numbers = numbers
        self._pieces = own[:-1].split(_HOLE)
        self._same = all(number.step == 1 and number.first == 0 for number in numbers)
        self._shared = shared
        self._constant = None if numbers else shared.after(own)

    def of(self, host: int) -> bytes | None:
        """Return the base64 of the patch of one host, or None when there are no operations at all."""
        if not self._numbers:
            return self._constant
        if self._same:
            return self._shared.behind((b"%d" % host).join(self._pieces))
        digits = [b"%d" % (host * number.step + number.first) for number in self._numbers]
        return self._shared.behind(b"".join([part for pair in zip(self._pieces, (*digits, b""), strict=True) for part in pair]))


def leave_open(operations: Sequence[Operation]) -> tuple[bytes, list[HostText]]:
    """Return the JSON of operations with a hole in place of each number, and what fills the holes, in order."""
    found: list[HostText] = []

    def hole(value: object) -> msgspec.Raw:
        if not isinstance(value, HostText):
            raise NotImplementedError
        found.append(value)
        return msgspec.Raw(b"%b%b" % (msgspec.json.encode(value.prefix)[:-1], _HOLE + b'"'))

    return msgspec.json.Encoder(enc_hook=hole).encode(operations), found
