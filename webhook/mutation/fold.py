"""The fold: the one writer, which turns edits of a pod into a JSON Patch (RFC 6902)."""

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from webhook.kube.objects import Container, Pod
from webhook.kube.paths import escape
from webhook.mutation.edit import AppendTerm, Edit, SetEnv, SetField, SetLabel

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_encode: Final = msgspec.json.Encoder().encode


class Operation(Struct, frozen=True, gc=False):
    """One operation of a JSON Patch."""

    op: str
    path: str
    value: Any


def fold(pod: Pod, edits: list[Edit]) -> list[Operation]:
    """Return the operations that make `edits` in `pod`; parents that are missing are created first."""
    labels: dict[str, str] = {}
    fields: list[Operation] = []
    variables: dict[str, list[SetEnv]] = {}
    terms: list[AppendTerm] = []
    for edit in edits:
        if isinstance(edit, SetEnv):
            changes = variables.get(edit.container)
            if changes is None:
                variables[edit.container] = [edit]
            else:
                changes.append(edit)
        elif isinstance(edit, SetLabel):
            labels[edit.key] = edit.value
        elif isinstance(edit, SetField):
            fields.append(Operation("add", f"/spec/{edit.name}", edit.value))
        elif isinstance(edit, AppendTerm):
            terms.append(edit)
    operations = _labels(pod, labels)
    operations += fields
    for path, changes in variables.items():
        operations += _variables(path, _container(pod, path), changes)
    if terms:
        operations += _affinity(pod, terms)
    return operations


def encode(operations: list[Operation]) -> bytes:
    """Return the JSON text of a patch."""
    return _encode(operations)


def _labels(pod: Pod, labels: dict[str, str]) -> list[Operation]:
    if not labels:
        return []
    if pod.metadata.labels is None:
        return [Operation("add", "/metadata/labels", labels)]
    return [Operation("add", f"/metadata/labels/{escape(key)}", value) for key, value in labels.items()]


def _container(pod: Pod, path: str) -> Container:
    _, _, kind, index = path.split("/")
    containers = pod.spec.init_containers if kind == "initContainers" else pod.spec.containers
    return (containers or [])[int(index)]


def _variables(path: str, container: Container, changes: list[SetEnv]) -> list[Operation]:
    """Return replacements in place, then insertions behind an entry from the last one on, then additions at the front."""
    if not container.env:
        return [Operation("add", f"{path}/env", [_entry(change) for change in changes])]
    operations: list[Operation] = []
    front: list[Operation] = []
    behind: list[SetEnv] = []
    for edit in changes:
        if edit.slot >= 0:
            operations.append(Operation("replace", f"{path}/env/{edit.slot}", _entry(edit)))
        elif edit.after >= 0:
            behind.append(edit)
        else:
            front.append(Operation("add", _env_path(path, len(front)), _entry(edit)))
    behind.sort(key=lambda edit: -edit.after)
    operations += [Operation("add", f"{path}/env/{edit.after + 1}", _entry(edit)) for edit in behind]
    return operations + front


@lru_cache(maxsize=1024)
def _env_path(container: str, index: int) -> str:
    return f"{container}/env/{index}"


def _entry(edit: SetEnv) -> dict[str, Any]:
    if edit.field_path:
        return {"name": edit.name, "valueFrom": {"fieldRef": {"fieldPath": edit.field_path}}}
    return {"name": edit.name, "value": edit.value}


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
