"""`ray-webhook diff`: the changes by applying a file: fields, findings, restarts, and hosts."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from webhook.api import names
from webhook.api.failures import InputError
from webhook.api.formats import json_text, one_line
from webhook.cli.connection import ClusterConnection, with_cluster
from webhook.cli.files import read_manifests, text_in
from webhook.cli.parsing import add_connection, add_output, add_paths, require_paths
from webhook.diagnostics.messages import format_count
from webhook.diff.comparison import Comparison, compare
from webhook.manifest.reader import Manifest
from webhook.manifest.views import problem_in
from webhook.validation.finding import Finding
from webhook.validation.ruleset import check

_PLURALS: Final = {kind: f"{kind.lower()}s" for kind in names.RAY_KINDS}
_SECONDS: Final = 30.0
_OWNERS: Final = {
    names.RAYSERVICE_KIND: " of its RayCluster",
    names.RAYJOB_KIND: " of the next RayCluster",
    names.RAYCRONJOB_KIND: " of the next RayCluster",
}
"""The RayCluster to compare. KubeRay never updates the RayCluster of a running job."""


class _Compared(NamedTuple):
    """An object in a file, and the live object if it exists."""

    kind: str
    name: str
    comparison: Comparison | None
    findings: list[Finding]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook diff raycluster.yaml\n"
        "  kubectl kustomize . | ray-webhook diff -\n\n"
        "What a file leaves out counts as unchanged, unless the last `kubectl apply` had it.\n"
        "The hosts of a RayJob or RayCronJob are those of the RayCluster that it makes next.\n\n"
        "exit status: 0: nothing changes; 1: something changes; 2: a file cannot be read, or the "
        "cluster cannot be reached"
    )
    add_paths(parser)
    add_output(parser)
    add_connection(parser, all_namespaces=False)


def run(arguments: argparse.Namespace) -> int:
    """Compare each Ray object of the files."""
    paths = require_paths(arguments)
    manifests = [manifest for manifest in read_manifests(paths) if manifest.kind in _PLURALS]
    if not manifests:
        files, kinds = ", ".join(paths), ", ".join(names.RAY_KINDS)
        raise InputError(f"{files}: no Ray object in it: give one of {kinds}")
    for manifest in manifests:
        if not text_in(manifest.metadata, "name"):
            raise problem_in(manifest, "metadata.name: set it, to find the object in the cluster")
    compared = with_cluster(arguments, lambda cluster: _compare_manifests(cluster, manifests))
    if arguments.output == "json":
        sys.stdout.write(json_text([_data(ray_object) for ray_object in compared]))
    else:
        sys.stdout.writelines(
            f"{one_line(line)}\n" for ray_object in compared for line in _lines(ray_object)
        )
    return int(
        any(ray_object.comparison is None or ray_object.comparison.any for ray_object in compared)
    )


async def _compare_manifests(cluster: ClusterConnection, given: list[Manifest]) -> list[_Compared]:
    return [await _one(cluster, manifest) for manifest in given]


async def _one(cluster: ClusterConnection, manifest: Manifest) -> _Compared:
    name = text_in(manifest.metadata, "name")
    namespace = str(manifest.metadata.get("namespace") or cluster.namespace)
    object_name = f"{manifest.kind} {namespace}/{name}"
    path = f"/apis/ray.io/v1/namespaces/{namespace}/{_PLURALS[manifest.kind]}/{name}"
    live = await cluster.api.find(path, dict[str, Any], _SECONDS)
    if live is None:
        return _Compared(manifest.kind, object_name, None, check(manifest.kind, manifest.document))
    return _Compared(
        manifest.kind, object_name, compare(manifest.kind, live, manifest.document), []
    )


def _lines(compared: _Compared) -> Iterator[str]:
    """Yield the differences: fields, then their effects."""
    comparison = compared.comparison
    if comparison is None:
        yield f"{compared.name}: new"
        yield from (f"  + {_finding(finding)}" for finding in compared.findings)
        return
    yield f"{compared.name}:{'' if comparison.any else ' the same'}"
    for change in comparison.changes:
        yield f"  ~ {change.path}: {_value(change.old)} -> {_value(change.new)}"
    yield from (f"  + {_finding(finding)}" for finding in comparison.found)
    yield from (f"  - {_finding(finding)}" for finding in comparison.gone)
    for host in comparison.hosts:
        group = f"{host.group}{_OWNERS.get(compared.kind, '')}"
        where = f"{group}: {host.what}, {format_count(host.hosts, 'host')}, first {host.first}"
        yield f"  * {where}: {host.old} -> {host.new}"


def _value(text: str | None) -> str:
    return "(not set)" if text is None else text


def _finding(finding: Finding) -> str:
    return f"{finding.level} {finding.rule} {finding.path}: {' '.join(finding.text.split())}"


def _data(compared: _Compared) -> dict[str, Any]:
    comparison = compared.comparison
    head = {"object": compared.name, "new": comparison is None}
    if comparison is None:
        return head | {"found": _entries(compared.findings)}
    return head | {
        "changes": msgspec.to_builtins(comparison.changes),
        "found": _entries(comparison.found),
        "gone": _entries(comparison.gone),
        "hosts": msgspec.to_builtins(comparison.hosts),
    }


def _entries(findings: Iterable[Finding]) -> list[dict[str, str]]:
    return [
        {
            "rule": finding.rule,
            "level": finding.level,
            "path": finding.path,
            "message": finding.text,
        }
        for finding in findings
    ]
