"""A JSON Patch as an AdmissionReview carries it: the base64 of its JSON. What the hosts of a replica share is encoded once."""

from base64 import b64encode
from collections.abc import Sequence

from webhook.mutation.fold import Operation, encode


class SharedPatch:
    """The end of the patches of a replica's hosts: operations that follow those of one host."""

    __slots__ = ("_alone", "_tail")

    def __init__(self, operations: Sequence[Operation]) -> None:
        text = encode(operations)
        self._alone = b64encode(text) if operations else None
        self._tail = b64encode(b"," + text[1:] if operations else b"]")

    def after(self, operations: Sequence[Operation]) -> bytes | None:
        """Return the base64 of the patch with these operations first, or None when there are no operations at all."""
        if not operations:
            return self._alone
        head = encode(operations)[:-1]
        # Base64 turns three bytes into four characters, so a head of whole threes can stand before any tail; JSON allows blanks.
        return b64encode(head + b" " * (-len(head) % 3)) + self._tail
