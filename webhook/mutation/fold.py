"""The fold: the one writer, which turns edits of a pod into a JSON Patch (RFC 6902)."""

from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from webhook.kube.objects import Container, Pod
from webhook.kube.paths import escape, pointer
from webhook.mutation.edit import AppendResizeRule, AppendTerm, Edit, SetEnv, SetField, SetLabel
from webhook.mutation.worker import Replica

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NONE_AHEAD: Final[Mapping[str, int]] = MappingProxyType({})
_encode: Final = msgspec.json.Encoder().encode


class Operation(Struct, frozen=True, gc=False):
    """One operation of a JSON Patch."""

    op: str
    path: str
    value: Any


def fold(replica: Replica, edits: Sequence[Edit], ahead: Mapping[str, int] = _NONE_AHEAD) -> list[Operation]:
    """Return the operations that make `edits` in a pod of `replica`; parents that are missing are created first.

    `ahead` says how many variables earlier operations have added at the front of a container's `env`.
    """
    labels, variables, terms, rules, operations = _sorted(edits)
    if labels:
        operations += _labels(replica.pod, labels)
    for path, changes in variables.items():
        operations += _variables(path, changes, ahead.get(path, 0), empty=not replica.slot(path).variables)
    if terms:
        operations += _affinity(replica.pod, terms)
    if rules:
        operations += _resize_rules(replica.pod, rules)
    return operations


def _sorted(
    edits: Sequence[Edit],
) -> tuple[dict[str, str], dict[str, list[SetEnv]], list[AppendTerm], list[AppendResizeRule], list[Operation]]:
    """Return labels, variables by container, affinity terms and resize rules, and the operations of fields."""
    labels: dict[str, str] = {}
    variables: dict[str, list[SetEnv]] = {}
    terms: list[AppendTerm] = []
    rules: list[AppendResizeRule] = []
    operations: list[Operation] = []
    for edit in edits:
        if type(edit) is SetEnv:
            variables.setdefault(edit.container, []).append(edit)
        elif type(edit) is SetLabel:
            labels[edit.key] = edit.value
        elif type(edit) is SetField:
            operations.append(Operation("add", f"/spec/{edit.name}", edit.value))
        elif type(edit) is AppendTerm:
            terms.append(edit)
        elif type(edit) is AppendResizeRule:
            rules.append(edit)
    return labels, variables, terms, rules, operations


def fold_in_turn(replica: Replica, own: Sequence[Edit], shared: Sequence[Edit]) -> tuple[list[Operation], list[Operation]]:
    """Return the operations of a host's own edits, and those of the shared ones, which come behind them."""
    # How many variables a host adds for itself does not depend on which host it is.
    return fold(replica, own), fold(replica, shared, _added_in_front(own))


def _added_in_front(edits: Sequence[Edit]) -> dict[str, int]:
    """Return how many variables edits add at the front of each container's `env`."""
    count: dict[str, int] = {}
    for edit in edits:
        if type(edit) is SetEnv and edit.slot < 0 > edit.after:
            count[edit.container] = count.get(edit.container, 0) + 1
    return count


def encode(operations: Sequence[Operation]) -> bytes:
    """Return the JSON text of a patch."""
    return _encode(operations)


class Pieces(NamedTuple):
    """The JSON text of a patch in two pieces: what one host receives for itself, and what all hosts of its replica receive."""

    own: bytes
    shared: bytes

    def packed(self) -> bytes | None:
        """Return the base64 of the patch, as an AdmissionReview carries it; None for a patch without operations."""
        return pack(self.own) + pack(self.shared) if self.own or self.shared else None


def pieces(own: Sequence[Operation], shared: Sequence[Operation]) -> Pieces:
    """Return the text of a patch that has the operations `own`, then those that are `shared`."""
    if not own:
        return Pieces(b"", _encode(shared) if shared else b"")
    return Pieces(_encode(own)[:-1], b"," + _encode(shared)[1:] if shared else b"]")


def pack(piece: bytes) -> bytes:
    """Return the base64 of a piece of a patch, to stand before that of the next one.

    Base64 turns three bytes into four characters; blanks, which JSON allows between values, make the threes whole.
    """
    return b2a_base64(piece + b" " * (-len(piece) % 3), newline=False)


def _labels(pod: Pod, labels: dict[str, str]) -> list[Operation]:
    if pod.metadata.labels is None:
        return [Operation("add", "/metadata/labels", labels)]
    return [Operation("add", f"/metadata/labels/{escape(key)}", value) for key, value in labels.items()]


def _variables(path: str, changes: list[SetEnv], ahead: int, *, empty: bool) -> list[Operation]:
    """Return replacements in place, then insertions behind an entry from the last one on, then additions at the front."""
    if empty and not ahead:
        return [Operation("add", f"{path}/env", [_entry(change) for change in changes])]
    operations: list[Operation] = []
    front: list[Operation] = []
    behind: list[SetEnv] = []
    for edit in changes:
        if edit.slot >= 0:
            operations.append(Operation("replace", f"{path}/env/{edit.slot + ahead}", _entry(edit)))
        elif edit.after >= 0:
            behind.append(edit)
        else:
            front.append(Operation("add", f"{path}/env/{ahead + len(front)}", _entry(edit)))
    if behind:
        behind.sort(key=lambda edit: -edit.after)
        operations += [Operation("add", f"{path}/env/{edit.after + 1 + ahead}", _entry(edit)) for edit in behind]
    operations += front
    return operations


def _entry(edit: SetEnv) -> dict[str, Any]:
    if edit.field_path:
        return {"name": edit.name, "valueFrom": {"fieldRef": {"fieldPath": edit.field_path}}}
    return {"name": edit.name, "value": edit.value}


def _resize_rules(pod: Pod, rules: list[AppendResizeRule]) -> list[Operation]:
    path = pointer("spec", "containers", 0, "resizePolicy")
    entries = [{"resourceName": rule.resource, "restartPolicy": "NotRequired"} for rule in rules]
    if (pod.spec.containers or [Container()])[0].resize_policy is None:
        return [Operation("add", path, entries)]
    return [Operation("add", f"{path}/-", entry) for entry in entries]


def _affinity(pod: Pod, terms: list[AppendTerm]) -> list[Operation]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for edit in terms:
        by_kind.setdefault(edit.kind, []).append(edit.term)
    present = pod.spec.affinity
    if present is None:
        return [Operation("add", "/spec/affinity", {kind: {_REQUIRED: added} for kind, added in by_kind.items()})]
    operations: list[Operation] = []
    for kind, added in by_kind.items():
        path = f"/spec/affinity/{kind}"
        current = present.pod_affinity if kind == "podAffinity" else present.pod_anti_affinity
        if current is None:
            operations.append(Operation("add", path, {_REQUIRED: added}))
        elif not current.required_during_scheduling_ignored_during_execution:
            operations.append(Operation("add", f"{path}/{_REQUIRED}", added))
        else:
            operations += [Operation("add", f"{path}/{_REQUIRED}/-", term) for term in added]
    return operations
