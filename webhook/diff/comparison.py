"""The changes that applying an object from a file would make to the live object."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.objects import Pod, map_of
from webhook.api.review import Denied
from webhook.groups.group_config import read_cluster_config
from webhook.groups.identity_labels import read_identity_labels
from webhook.manifest.kuberay_pods import MOST_PODS, cluster_for, count_pods, expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster, require_owner
from webhook.manifest.yaml_values import ManifestError
from webhook.mutation.edit import SetEnv, SetField
from webhook.mutation.pipeline import host_edits, replica_edits
from webhook.mutation.ray_pod import Worker, read_replica
from webhook.validation.finding import Finding
from webhook.validation.ruleset import check, check_update

Object = dict[str, Any]
Hosts = dict[tuple[str, int, int], dict[str, str]]
"""The edits of each host, by group, replica and host."""

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITIES: Final = ("groupName", "name")
_LONG: Final = 80


class FieldChange(Struct, frozen=True, omit_defaults=True):
    """A field that changes; a missing value is None."""

    path: str
    old: str | None
    new: str | None


class HostChange(Struct, frozen=True):
    """A changed value on hosts of a group: the number of hosts, and the values of the first."""

    group: str
    what: str
    hosts: int
    first: str
    old: str
    new: str


class Comparison(Struct, frozen=True):
    """Changed fields, new and resolved findings, and changed hosts of the resulting RayCluster."""

    changes: tuple[FieldChange, ...]
    found: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    hosts: tuple[HostChange, ...]

    @property
    def any(self) -> bool:
        """Return whether there is a difference."""
        return bool(self.changes)


def compare(kind: str, live: Object, new: Object) -> Comparison:
    """Return the changes that applying `new` would make to `live`.

    Fields that `new` omits are unchanged, including defaults, unless the last `kubectl apply` set
    them.
    """
    meta = live.get("metadata") or {}
    after = {**live, **_merge_three_way(live, _last(meta), _select_user_fields(new))}
    live_findings = check(kind, live)
    return Comparison(
        tuple(_changes(_select_user_fields(live), _select_user_fields(after), "")),
        _others(check_update(kind, live, after), live_findings),
        _others(live_findings, check(kind, after)),
        tuple(_host_changes({**live, "kind": kind}, {**after, "kind": kind})),
    )


def _others(findings: Iterable[Finding], known: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that another version of the object does not have."""
    keys = {(*finding.place, finding.message) for finding in known}
    return tuple(finding for finding in findings if (*finding.place, finding.message) not in keys)


def _select_user_fields(document: Object) -> Object:
    """Return the fields of an object that users write: its spec, labels and annotations."""
    meta = map_of(document.get("metadata"))
    annotations = {
        key: value for key, value in map_of(meta.get("annotations")).items() if key != _LAST_APPLIED
    }
    metadata = {"labels": map_of(meta.get("labels")), "annotations": annotations}
    return {"metadata": metadata, "spec": map_of(document.get("spec"))}


def _last(meta: Object) -> Object:
    """Return the fields of the last `kubectl apply` that users write, without name and namespace,
    which an apply never removes.
    """
    try:
        last = msgspec.json.decode(map_of(meta.get("annotations")).get(_LAST_APPLIED, "{}"))
    except msgspec.DecodeError:
        return {}
    return _select_user_fields(map_of(last))


def _merge_three_way(live: Any, last: Any, new: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value after an apply: maps, and lists by name, are merged; others replaced."""
    if isinstance(live, dict) and isinstance(new, dict):
        last_fields = last if isinstance(last, dict) else {}
        # A field that the last apply set and the file omits is removed; one that another manager
        # set stays.
        live_fields = {
            key: value for key, value in live.items() if key in new or key not in last_fields
        }
        return live_fields | {
            key: _merge_three_way(live.get(key), last_fields.get(key), value)
            for key, value in new.items()
        }
    if isinstance(live, list) and isinstance(new, list):
        live_elements, previous = (
            _by_identity(live),
            _by_identity(last if isinstance(last, list) else []),
        )
        return [
            _merge_three_way(live_elements.get(key), previous.get(key), value)
            for key, value in _by_identity(new).items()
        ]
    return new


def _by_identity(elements: list[Any]) -> dict[object, Any]:
    elements_by_name: dict[object, Any] = {}
    for index, element in enumerate(elements):
        fields = element if isinstance(element, Mapping) else {}
        name = next((fields[key] for key in _IDENTITIES if isinstance(fields.get(key), str)), None)
        elements_by_name[index if name is None or name in elements_by_name else name] = element
    return elements_by_name


def _changes(old: object, new: object, path: str) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            step = f".{key}" if key.isidentifier() else f"[{key}]"
            yield from _changes(old.get(key), new.get(key), f"{path}{step}".removeprefix("."))
    elif isinstance(old, list) and isinstance(new, list):
        old_elements, new_elements = _by_identity(old), _by_identity(new)
        for key in (*old_elements, *(key for key in new_elements if key not in old_elements)):
            yield from _changes(old_elements.get(key), new_elements.get(key), f"{path}[{key}]")
        if list(old_elements) != list(new_elements) and set(old_elements) == set(new_elements):
            yield FieldChange(path, "in this order", "in another order")
    else:
        yield FieldChange(path, _format_value(old), _format_value(new))


def _format_value(value: object) -> str | None:
    if value is None:
        return None
    value_text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shorten(value_text, _LONG)


def _host_changes(live: Object, after: Object) -> Iterator[HostChange]:
    """Yield added and removed hosts, and changed names, indices and peers of the others."""
    live_hosts, new_hosts = _hosts(live), _hosts(after)
    if live_hosts is None or new_hosts is None:
        return
    host_changes: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for host in sorted({*live_hosts, *new_hosts}):
        group, replica, number = host
        host_label = (
            "the head" if group == names.HEAD_GROUP else f"replica {replica}, host {number}"
        )
        if host not in new_hosts:
            host_changes.setdefault((group, "deleted hosts"), []).append(
                (host_label, "exists", "deleted")
            )
        elif host not in live_hosts:
            host_changes.setdefault((group, "created hosts"), []).append(
                (host_label, "does not exist", "created")
            )
        else:
            for value_name in sorted({*live_hosts[host], *new_hosts[host]}):
                was, will = (
                    live_hosts[host].get(value_name, "not set"),
                    new_hosts[host].get(value_name, "not set"),
                )
                if was != will:
                    host_changes.setdefault((group, value_name), []).append((host_label, was, will))
    for (group, value_name), changed_hosts in host_changes.items():
        first, was, will = changed_hosts[0]
        yield HostChange(
            group,
            value_name,
            hosts=len(changed_hosts),
            first=first,
            old=_format_value(was) or "",
            new=_format_value(will) or "",
        )


def _hosts(document: Object) -> Hosts | None:
    """Return the edits of each host of the RayCluster that the object is or creates; None if
    unknown. A suspended object, or one that creates no RayCluster, has no hosts and no head.
    """
    try:
        cluster = (
            document if document["kind"] == names.RAYCLUSTER_KIND else _build_raycluster(document)
        )
        if cluster is None:
            return {}
        view = as_cluster(Manifest("live", cluster))
        if view.spec.suspend:
            return {}
        # A mistyped number of replicas would take minutes and gigabytes.
        if count_pods(view) > MOST_PODS:
            return None
        return dict(_list_host_values(cluster, expand(cluster, view, indexed=True)))
    # The findings say why; the comparison of fields is still of use.
    except (ManifestError, Denied, ValueError):
        return None


def _build_raycluster(document: Object) -> Object | None:
    """Return the RayCluster that KubeRay creates for an object; None if it creates none, as while
    the object is suspended.
    """
    require_owner(Manifest("live", document))
    spec = document.get("spec") or {}
    below = spec.get("jobTemplate") if document["kind"] == names.RAYCRONJOB_KIND else {}
    suspended = any(owner_spec.get("suspend") for owner_spec in (spec, below or {}))
    return None if suspended else cluster_for(document)


def _list_host_values(
    document: Object, pods: Iterator[Object]
) -> Iterator[tuple[tuple[str, int, int], dict[str, str]]]:
    cluster_config = read_cluster_config(as_cluster(Manifest("live", document)))
    for raw in pods:
        pod = msgspec.json.decode(msgspec.json.encode(raw), type=Pod)
        if pod.labels.get(names.LABEL_NODE_TYPE) == names.NODE_TYPE_HEAD:
            yield (names.HEAD_GROUP, 0, 0), {}
            continue
        group = cluster_config.groups.get(pod.labels.get(names.LABEL_GROUP, ""))
        identity = (
            read_identity_labels(pod.labels, group.num_of_hosts) if group is not None else None
        )
        if group is None or identity is None:
            continue
        replica = read_replica(pod, identity, cluster_config, group)
        values: dict[str, str] = {}
        for edit in (*host_edits(Worker(replica, identity.host)), *replica_edits(replica)):
            if type(edit) is SetEnv:
                values[edit.name] = str(edit.value) or f"<{edit.field_path}>"
            elif type(edit) is SetField and edit.name == "hostname":
                values["hostname"] = str(edit.value)
        yield (group.group_name, identity.replica, identity.host), values
