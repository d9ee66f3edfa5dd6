"""The report as a JSON document: the output of `status -o json`, also served by the dashboard."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from webhook.api.formats import escape_json
from webhook.api.times import text_of
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import ERROR, Problem, earliest
from webhook.diagnostics.messages import format_count

API_VERSION: Final = "admission.ray.io/v1alpha1"
KIND: Final = "RayStatus"

READY: Final = "Ready"
DEGRADED: Final = "Degraded"

_TIMES: Final = frozenset({"now", "since", "created"})
"""Fields in seconds since the epoch, which are RFC 3339 in the document."""


_NO_CLUSTERS: Final = b'"clusters":[]'


class ReportedCondition(Struct, rename="camel", frozen=True, omit_defaults=True):
    """A condition of a RayCluster, in the form of Kubernetes API conditions."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    last_transition_time: str | None = None
    """Omitted if unknown."""


class ClusterStatus(report.RayClusterReport, rename="camel", frozen=True, omit_defaults=True):
    """A RayCluster with its conditions."""

    conditions: tuple[ReportedCondition, ...] = ()


class StatusReport(Struct, rename="camel", frozen=True):
    """The report of `ray-webhook status`."""

    api_version: Literal["admission.ray.io/v1alpha1"]
    kind: Literal["RayStatus"]
    now: float
    degraded: bool
    clusters: tuple[ClusterStatus, ...]
    problems: tuple[Problem, ...]
    unread: dict[str, str]


def document(cluster_report: report.ClusterReport) -> dict[str, Any]:
    """Return a report as JSON values."""
    json_object: dict[str, Any] = msgspec.json.decode(b"".join(encode_report(cluster_report)))
    return json_object


def encode_report(cluster_report: report.ClusterReport) -> Iterator[bytes]:
    """Yield a report as JSON, in one chunk per RayCluster."""
    status = StatusReport(
        API_VERSION,
        KIND,
        now=cluster_report.now,
        degraded=cluster_report.is_degraded,
        clusters=(),
        problems=cluster_report.problems,
        unread=cluster_report.unread,
    )
    begin, end = encode_json(status).split(_NO_CLUSTERS, 1)
    yield begin + _NO_CLUSTERS[:-1]
    for number, reported_cluster in enumerate(cluster_report.clusters):
        cluster = ClusterStatus(
            **structs.asdict(reported_cluster), conditions=conditions(reported_cluster)
        )
        yield (b"," if number else b"") + encode_json(cluster)
    yield _NO_CLUSTERS[-1:] + end


def encode_json(value: Struct) -> bytes:
    """Return a struct as JSON in ASCII, with times as RFC 3339."""
    json_object: dict[str, Any] = _format_times(msgspec.to_builtins(value))
    return escape_json(msgspec.json.encode(json_object).decode()).encode()


def conditions(cluster: report.RayClusterReport) -> tuple[ReportedCondition, ...]:
    """Return the conditions Ready and Degraded of a RayCluster."""
    if cluster.failure:
        failed = f"it could not be examined: {cluster.failure}"
        return tuple(
            ReportedCondition(condition_type, "Unknown", "NotExamined", failed)
            for condition_type in (READY, DEGRADED)
        )
    errors = [problem for problem in cluster.problems if problem.level == ERROR]
    since = text_of(earliest(problem.since for problem in errors))
    if errors:
        reason = "".join(part.capitalize() for part in errors[0].id.split("-"))
        degraded = ReportedCondition(
            DEGRADED, "True", reason=reason, message=errors[0].message, last_transition_time=since
        )
    elif cluster.is_degraded:
        degraded = ReportedCondition(
            DEGRADED, "True", "ReplicaNotReady", "a replica is not complete"
        )
    else:
        degraded = ReportedCondition(DEGRADED, "False", "NoProblem", "no problem was found")
    return _ready(cluster, since), degraded


def _ready(cluster: report.RayClusterReport, since: str | None) -> ReportedCondition:
    replicas = [replica for group in cluster.groups for replica in group.replicas]
    complete = sum(replica.state == report.COMPLETE for replica in replicas)
    message = f"{complete} of {format_count(len(replicas), 'replica')} complete"
    if cluster.deleting:
        return ReportedCondition(READY, "False", "BeingDeleted", message)
    if complete < len(replicas):
        return ReportedCondition(
            READY,
            "False",
            reason="ReplicasNotComplete",
            message=message,
            last_transition_time=since,
        )
    if cluster.head.state != report.READY:
        return ReportedCondition(
            READY,
            "False",
            reason="HeadNotReady",
            message=f"the head is {cluster.head.state}",
            last_transition_time=since,
        )
    return ReportedCondition(READY, "True", "AllHostsReady", message)


def build_schemas(types: tuple[type[Struct], ...], template: str) -> dict[str, Any]:
    """Return JSON Schemas of what `encode_json` returns for types and their parts, by name."""
    _, schemas = msgspec.json.schema_components(types, ref_template=template)
    for schema in schemas.values():
        # Python 3.13 removes the indentation of docstrings, the releases before it do not
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
        for name in schema.get("properties", {}).keys() & _TIMES:
            schema["properties"][name] = {"type": "string", "format": "date-time"}
    return schemas


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    parts = build_schemas((StatusReport,), "#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **parts.pop(StatusReport.__name__),
        "$defs": dict(sorted(parts.items())),
    }


def _format_times(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        timed_values = {
            key: text_of(item)
            if key in _TIMES and isinstance(item, int | float)
            else _format_times(item)
            for key, item in value.items()
        }
        return {
            key: item for key, item in timed_values.items() if item is not None or key not in _TIMES
        }
    return [_format_times(item) for item in value] if isinstance(value, list | tuple) else value
