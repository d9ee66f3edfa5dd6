"""Conversion of edits of a pod to a JSON Patch (RFC 6902)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from webhook.api.formats import escape
from webhook.api.objects import Pod, Strings
from webhook.mutation.edit import (
    AddClaim,
    AppendResizeRule,
    AppendTerm,
    Edit,
    SetAmount,
    SetAnnotation,
    SetEnv,
    SetField,
    SetLabel,
    SetPreStop,
)
from webhook.mutation.ray_pod import Replica

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_encode: Final = msgspec.json.Encoder().encode


class Operation(Struct, frozen=True, gc=False):
    """An operation of a JSON Patch; a removal has no value."""

    op: str
    path: str
    value: Any = UNSET


def fold(replica: Replica, edits: Sequence[Edit]) -> list[Operation]:
    """Return the operations for `edits` in a pod of `replica`; missing parents are created
    first.
    """
    operations: list[Operation] = []
    variables: dict[str, list[SetEnv]] = {}
    edits_by_type: dict[type, list[Any]] = {}
    for edit in edits:
        if type(edit) is SetEnv:
            variables.setdefault(edit.container, []).append(edit)
        elif (write := _IN_ORDER.get(type(edit))) is not None:
            operations += write(replica, edit)
        else:
            edits_by_type.setdefault(type(edit), []).append(edit)
    meta = replica.pod.metadata
    labels = {edit.key: edit.value for edit in edits_by_type.get(SetLabel, ())}
    annotations = {edit.key: edit.value for edit in edits_by_type.get(SetAnnotation, ())}
    operations += add_entries("/metadata/labels", meta.labels, labels)
    operations += add_entries("/metadata/annotations", meta.annotations, annotations)
    bare = {slot.path for slot in replica.slots if not slot.variables}
    for path, changes in variables.items():
        operations += _variables(path, changes, empty=path in bare)
    if terms := edits_by_type.get(AppendTerm):
        operations += _affinity(replica.pod, terms)
    if rules := edits_by_type.get(AppendResizeRule):
        operations += _resize_rules(replica.ray.container.resize_policy, rules)
    return operations


def encode(operations: Sequence[Operation]) -> bytes:
    """Return the JSON text of a patch."""
    return _encode(operations)


def add_entries(path: str, present: Strings | None, added: Strings) -> list[Operation]:
    """Return the operations that add entries to the map at `path`, which is `present` or is
    created. The parent of the map exists.
    """
    if present is None:
        return [Operation("add", path, added)] if added else []
    return [Operation("add", f"{path}/{escape(key)}", value) for key, value in added.items()]


def _field(_: Replica, edit: SetField) -> list[Operation]:
    return [Operation("add", f"/spec/{edit.name}", edit.value)]


def _claim(replica: Replica, edit: AddClaim) -> list[Operation]:
    entry, name = {"name": edit.name, "resourceClaimTemplateName": edit.template}, edit.name
    operations = [_append_entry("/spec/resourceClaims", replica.pod.spec.resource_claims, entry)]
    slots = {slot.path: slot for slot in replica.slots}
    for path in edit.containers:
        present = slots[path].container.resources
        if present is None:
            operations.append(Operation("add", f"{path}/resources", {"claims": [{"name": name}]}))
        else:
            operations.append(
                _append_entry(f"{path}/resources/claims", present.claims, {"name": name})
            )
    return operations


def _append_entry(path: str, present: Sequence[object] | None, entry: dict[str, Any]) -> Operation:
    return (
        Operation("add", path, [entry]) if present is None else Operation("add", f"{path}/-", entry)
    )


def _pre_stop(_: Replica, edit: SetPreStop) -> list[Operation]:
    path, hook = f"{edit.container}/lifecycle", {"exec": {"command": edit.command}}
    if edit.has_lifecycle:
        return [Operation("add", f"{path}/preStop", hook)]
    return [Operation("add", path, {"preStop": hook})]


def _amount(_: Replica, edit: SetAmount) -> list[Operation]:
    path = f"{edit.container}/resources/{edit.kind}/{escape(edit.resource)}"
    return [Operation("add", path, edit.value)]


def _variables(path: str, changes: list[SetEnv], *, empty: bool) -> list[Operation]:
    """Return replacements in place, then insertions after an entry and removals of moved entries,
    from the last entry on, then additions at the front.
    """
    if empty:
        return [Operation("add", f"{path}/env", [_entry(change) for change in changes])]
    # At the front: the kubelet resolves `$(NAME)` only by entries before it.
    front = [edit for edit in changes if edit.slot < 0 > edit.after]
    added = [Operation("add", f"{path}/env/{at}", _entry(edit)) for at, edit in enumerate(front)]
    if len(front) == len(changes):
        return added
    replaced = [edit for edit in changes if edit.slot >= 0 > edit.after]
    behind = [(edit.after + 1, edit) for edit in changes if edit.after >= 0]
    moved = [(edit.slot, None) for _, edit in behind if edit.slot >= 0]
    return [
        *(Operation("replace", f"{path}/env/{edit.slot}", _entry(edit)) for edit in replaced),
        *(
            Operation("add", f"{path}/env/{at}", _entry(edit))
            if edit
            else Operation("remove", f"{path}/env/{at}")
            # From the end: each operation shifts the indices of the entries behind it.
            for at, edit in sorted([*moved, *reversed(behind)], key=lambda each: -each[0])
        ),
        *added,
    ]


def _entry(edit: SetEnv) -> dict[str, Any]:
    if edit.field_path:
        return {"name": edit.name, "valueFrom": {"fieldRef": {"fieldPath": edit.field_path}}}
    return {"name": edit.name, "value": edit.value}


def _resize_rules(present: object, rules: list[AppendResizeRule]) -> list[Operation]:
    (container,) = {rule.container for rule in rules}  # only Ray's container has rules
    path = f"{container}/resizePolicy"
    entries = [{"resourceName": rule.resource, "restartPolicy": "NotRequired"} for rule in rules]
    if present is None:
        return [Operation("add", path, entries)]
    return [Operation("add", f"{path}/-", entry) for entry in entries]


def _affinity(pod: Pod, terms: list[AppendTerm]) -> list[Operation]:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for edit in terms:
        by_kind.setdefault(edit.kind, []).append(edit.term)
    present = pod.spec.affinity
    if present is None:
        kinds = {kind: {_REQUIRED: added} for kind, added in by_kind.items()}
        return [Operation("add", "/spec/affinity", kinds)]
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


_IN_ORDER: Final[dict[type, Callable[[Replica, Any], list[Operation]]]] = {
    SetField: _field,
    SetPreStop: _pre_stop,
    SetAmount: _amount,
    AddClaim: _claim,
}
"""Edits whose operations do not depend on other edits."""
