"""`ray-webhook preview`: the values that KubeRay's pods would receive, without a cluster."""

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import jsonpatch
import msgspec

from webhook.admission.pod_handler import PodDecision, PodHandler
from webhook.api import names
from webhook.api.failures import InputError
from webhook.api.formats import format_pointer, json_text, many_lines, one_line
from webhook.api.names import POD_KIND
from webhook.api.objects import Pod, RayCluster
from webhook.api.review import Denied
from webhook.cli.files import read_manifests
from webhook.cli.parsing import add_paths, require_paths
from webhook.cli.sharding import Sharded, reason_of, shard_clusters
from webhook.cli.summary import table
from webhook.config.settings_file import nearest_settings_file, read_rules
from webhook.manifest.kuberay_pods import MOST_PODS, cluster_for, count_pods, expand
from webhook.manifest.reader import Manifest, as_yaml
from webhook.manifest.standalone import load_state
from webhook.manifest.start_command import start_commands
from webhook.manifest.views import (
    NAMELESS,
    as_pod,
    problem_in,
    require_owner,
    with_generated_name,
)
from webhook.mutation.edit import (
    AddClaim,
    AppendResizeRule,
    AppendTerm,
    Change,
    Edit,
    Note,
    SetAmount,
    SetAnnotation,
    SetEnv,
    SetField,
    SetLabel,
    SetPreStop,
    Value,
    Warn,
)
from webhook.mutation.pipeline import edits, operations
from webhook.mutation.ray_pod import Policy
from webhook.reservation.stores import at_once
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_file, check_update

_NO_PODS: Final = (
    "no pods to create; a RayJob with a clusterSelector runs on an existing RayCluster"
)


class _Result(NamedTuple):
    """The result for a pod: its placement, or the reason of a denial; neither if unchanged."""

    pod: dict[str, Any]
    placed: PodDecision | None = None
    refused: str = ""

    @property
    def edits(self) -> list[Edit]:
        return edits(self.placed.replica, self.placed.identity.host) if self.placed else []

    @property
    def patch(self) -> list[dict[str, Any]]:
        patch_operations = (
            operations(self.placed.replica, self.placed.identity.host) if self.placed else []
        )
        patch: list[dict[str, Any]] = msgspec.to_builtins(patch_operations)
        return patch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook preview raycluster.yaml                    each pod, and why\n"
        "  ray-webhook preview rayjob.yaml --summary              a row for each pod\n"
        "  kubectl get raycluster x -o yaml | ray-webhook preview - -o yaml\n\n"
        "exit status: 0: all is admitted; 1: an object or a pod is denied; 2: the input cannot be "
        "read"
    )
    add_paths(parser)
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="PATH",
        help="RayClusters and pods that exist already: a file or a folder; may be repeated",
    )
    parser.add_argument(
        "--multi-host-indexing",
        action="store_true",
        help="write the identity labels that KubeRay 1.6+ writes itself",
    )
    parser.add_argument(
        "--explain", action="store_true", help="say what is added where, and why (the default)"
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="a row for each worker (the default on a terminal for more than one replica)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("json", "patch", "yaml"),
        help="print the JSON Patches, or the resulting pods",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if all is admitted, 1 for a denial, 2 if the input cannot be read."""
    paths = require_paths(arguments)
    manifests, state = read_manifests(paths), read_manifests(arguments.state)
    settings = read_rules(nearest_settings_file())
    policy = Policy(devices=settings.devices, profiles=settings.profiles)
    denials, warnings, admitted = _findings(manifests, state, settings)
    playing = _play(admitted, state, policy, indexed=arguments.multi_host_indexing)
    clusters, results = at_once(playing)
    if not (results or clusters or denials):
        raise InputError(f"{', '.join(paths)}: {_NO_PODS}")
    _print(arguments, clusters, results)
    for name, warning in warnings:
        sys.stderr.write(many_lines(f"ray-webhook preview: {one_line(name)}: warning: {warning}\n"))
    refused = [
        *denials,
        *((cluster.name, cluster.refused) for cluster in clusters if cluster.refused),
        *((_name(result.pod), result.refused) for result in results if result.refused),
    ]
    for name, reason in dict.fromkeys(refused):  # pods of a group have the same name and reason
        sys.stderr.write(many_lines(f"ray-webhook preview: {one_line(name)}: refused: {reason}\n"))
    return 1 if refused else 0


_Messages = list[tuple[str, str]]
"""The names of objects, with a message about each."""


def _findings(
    given: Sequence[Manifest], state: Sequence[Manifest], settings: RuleSettings
) -> tuple[_Messages, _Messages, list[Manifest]]:
    """Return the denials and the warnings of `validate`, and the objects that it does not deny. An
    object that is in the state, too, is an update.
    """
    denials: _Messages = []
    warnings: _Messages = []
    admitted: list[Manifest] = []
    existing = {_identity(state_manifest): state_manifest.document for state_manifest in state}
    for manifest in given:
        if manifest.kind not in names.RAY_KINDS:
            admitted.append(manifest)
            continue
        kind, new, old = manifest.kind, manifest.document, existing.get(_identity(manifest))
        findings = (
            check_file(kind, new, settings, manifest.duplicates)
            if old is None
            else check_update(kind, old, new, settings)
        )
        if all(finding.level != DENY for finding in findings):
            admitted.append(manifest)
        for finding in findings:
            message = f"{finding.path}: {finding.text} [{finding.rule}]"
            place = f"{manifest.file}:{manifest.line(finding.field.tokens)}"
            name = f"{place}: {kind} {_read_namespaced_name(manifest)[1]}"
            if finding.level == DENY:
                denials.append((name, f"validate denies it: {message}"))
            else:
                warnings.append((name, message))
    return denials, warnings, admitted


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.kind, *_read_namespaced_name(manifest)


def _read_namespaced_name(manifest: Manifest) -> tuple[str, str]:
    """Return namespace and name of an object."""
    meta = manifest.metadata
    name = meta.get("name") or meta.get("generateName") or ""
    return str(meta.get("namespace") or "default"), str(name)


def _print(arguments: argparse.Namespace, clusters: list[Sharded], results: list[_Result]) -> None:
    chosen = arguments.explain or arguments.output
    summary = arguments.summary or (not chosen and sys.stdout.isatty() and _many(results))
    if arguments.explain or not (arguments.output or summary):
        for cluster in clusters:
            sys.stdout.write(many_lines(cluster.explained()))
            sys.stdout.write(many_lines(_start_commands(cluster)))
        for number, result in enumerate(results, 1):
            sys.stdout.write(
                many_lines(f"pod {number}: {one_line(_name(result.pod))}{_explain(result)}\n")
            )
    if summary and results:
        stored = (_apply_patch(result) for result in results if not result.refused)
        sys.stdout.write("".join(f"{one_line(line)}\n" for line in table(stored)))
    if arguments.output:
        sys.stdout.write(_format_results(results, arguments.output))


async def _play(
    given: list[Manifest], state: list[Manifest], policy: Policy, *, indexed: bool
) -> tuple[list[Sharded], list[_Result]]:
    """Return the results of the RayClusters, and of all pods. Raises ManifestError."""
    given = [
        manifest
        for manifest in map(_convert_owner, map(with_generated_name, given))
        if manifest is not None
    ]
    sent = shard_clusters(
        [manifest for manifest in given if manifest.kind == names.RAYCLUSTER_KIND], state
    )
    clusters = [cluster async for cluster in sent]
    results = _results(given, clusters, state, policy, indexed=indexed)
    return clusters, [result async for result in results]


def _convert_owner(manifest: Manifest) -> Manifest | None:
    """Return the RayCluster that a RayJob, RayService or RayCronJob creates, None if it creates
    none; any other object unchanged.
    """
    if manifest.kind not in names.RAY_KINDS or manifest.kind == names.RAYCLUSTER_KIND:
        return manifest
    require_owner(manifest)
    cluster = cluster_for(manifest.document)
    return None if cluster is None else Manifest(manifest.file, cluster)


def _start_commands(cluster: Sharded) -> str:
    """Return a line with the start command of each group of a RayCluster that is not denied."""
    meta, document = cluster.manifest.metadata, cluster.manifest.document
    name, namespace = str(meta.get("name") or ""), str(meta.get("namespace") or "default")
    commands = () if cluster.refused else start_commands(document, name, namespace)
    return "".join(
        one_line(f"{name}, {group} starts with: {command}") + "\n" for group, command in commands
    )


def _many(results: list[_Result]) -> bool:
    """Return whether the pods belong to more than one replica."""
    placed = [result.placed for result in results if result.placed and result.placed.has_identity]
    return len({(decision.ray_pod.key, decision.identity.replica) for decision in placed}) > 1


async def _results(
    given: list[Manifest],
    sent: list[Sharded],
    state: list[Manifest],
    policy: Policy,
    *,
    indexed: bool,
) -> AsyncIterator[_Result]:
    """Simulate KubeRay and the API server: each pod is created after the previous one was admitted.

    `sent` are the RayClusters among the given objects; a denied RayCluster has no pods.
    """
    pods = [manifest for manifest in given if manifest.kind == POD_KIND]
    clusters = [cluster.manifest for cluster in sent if not cluster.refused]
    views = [as_pod(manifest) for manifest in pods]
    standalone = load_state([*state, *clusters], views)
    for problem in standalone.outdated:
        sys.stderr.write(many_lines(f"ray-webhook preview: warning: {problem}\n"))
    handler = PodHandler(standalone.clusters, standalone.identities, policy)
    documents = [manifest.document for manifest in pods]
    sent_views = standalone.rayclusters[len(standalone.rayclusters) - len(clusters) :]
    for manifest, cluster in zip(clusters, sent_views, strict=True):
        _check_playable(manifest, cluster)
        documents += expand(manifest.document, cluster, indexed=indexed)
    created = (
        as_pod(Manifest(_name(pod_document), pod_document))
        for pod_document in documents[len(pods) :]
    )
    for number, (document, pod) in enumerate(zip(documents, chain(views, created), strict=True)):
        yield await _result(handler, document, pod, f"pod-{number}")


def _check_playable(manifest: Manifest, cluster: RayCluster) -> None:
    """Raise ManifestError if the pods of a RayCluster cannot be simulated."""
    if not cluster.metadata.name:
        raise problem_in(manifest, NAMELESS, ["metadata"])
    count = count_pods(cluster)
    if count > MOST_PODS:
        message = (
            f"spec.workerGroupSpecs: {count} pods, and a cluster of Kubernetes has at most "
            f"{MOST_PODS}: lower replicas, or numOfHosts"
        )
        raise problem_in(manifest, message, ["spec", "workerGroupSpecs"])


async def _result(handler: PodHandler, document: dict[str, Any], pod: Pod, uid: str) -> _Result:
    try:
        placed = await handler.place(pod, pod.metadata.namespace or "default", uid)
    except Denied as denied:
        return _Result(document, refused=reason_of(denied))
    if placed is None or isinstance(placed, PodDecision):
        return _Result(document, placed)
    field = f"metadata.labels[{names.LABEL_CLUSTER}]"
    return _Result(document, refused=f"{field}: {placed.reason}: give its manifest with --state")


def _name(pod: dict[str, Any]) -> str:
    meta = pod.get("metadata") or {}
    return str(meta.get("name") or f"{meta.get('generateName', 'pod')}*")


def _explain(result: _Result) -> str:
    if result.refused:
        return ": REFUSED"
    placed, pod_edits = result.placed, result.edits
    if placed is None or not (placed.has_identity or pod_edits):
        return ": is unchanged"
    lines = [
        one_line(f"  {description:<74} {why}".rstrip())
        for description, why in map(_describe, pod_edits)
    ]
    return "\n".join([f": {_where(placed)}", *(lines or ["  nothing to add"])])


def _where(placed: PodDecision) -> str:
    if not placed.has_identity:
        return "head"
    identity = placed.identity
    identity_text = f"replica {identity.replica}, host {identity.host}" + (
        f", {identity.name}" if identity.name else ""
    )
    return f"{identity_text} ({'assigned' if placed.holder else 'carried by its labels, trusted'})"


def _describe(edit: Edit) -> tuple[str, str]:
    """Return the description of an edit, and the reason."""
    if isinstance(edit, Warn | Note):
        return f"{'!' if isinstance(edit, Warn) else '-'} {edit.text}", ""
    return _done(edit), f"# {edit.why}"


def _done(edit: Change) -> str:
    match edit:
        case SetLabel(key, value) | SetAnnotation(key, value):
            kind = "label" if isinstance(edit, SetLabel) else "annotation"
            return f"+ {kind} {key}={value}"
        case SetField(name, value):
            return f"+ spec.{name}{_format_assignment(value)}"
        case AddClaim(name, template):
            return f"+ spec.resourceClaims {name}: {template}"
        case AppendResizeRule(container) | SetPreStop(container) | SetAmount(container):
            mark = "~" if isinstance(edit, SetAmount) else "+"
            return f"{mark} {format_pointer(container).removeprefix('spec.')}.{_part(edit)}"
        case SetEnv():
            mark = "~" if edit.slot >= 0 else "+"
            value = f"<{edit.field_path}>" if edit.field_path else edit.value
            return (
                f"{mark} {format_pointer(edit.container).removeprefix('spec.')} {edit.name}={value}"
            )
        case AppendTerm(kind, term):
            return f"+ spec.affinity.{kind}: {_selector(term)} in {term['topologyKey']}"


def _part(edit: AppendResizeRule | SetPreStop | SetAmount) -> str:
    """Return the part of a container that an edit adds or changes."""
    if isinstance(edit, AppendResizeRule):
        return f"resizePolicy {edit.resource}: NotRequired"
    if isinstance(edit, SetAmount):
        return f"resources.{edit.kind}.{edit.resource}={edit.value}"
    return "lifecycle.preStop"


def _format_assignment(value: Value) -> str:
    return (
        "".join(f".{key}={field_value}" for key, field_value in value.items())
        if isinstance(value, dict)
        else f"={value}"
    )


def _selector(term: dict[str, Any]) -> str:
    selector = term["labelSelector"]
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", []):
        values = f" ({','.join(expression['values'])})" if "values" in expression else ""
        parts.append(f"{expression['key']} {expression['operator']}{values}")
    return ", ".join(parts)


def _apply_patch(result: _Result) -> dict[str, Any]:
    patched: dict[str, Any] = jsonpatch.apply_patch(result.pod, result.patch)
    return patched


def _format_results(results: list[_Result], output: str) -> str:
    """Return a line with the patch of each pod, in order, or the pods that are stored."""
    if output == "patch":
        return "".join(json_text(result.patch, None) for result in results)
    items = [_apply_patch(result) for result in results if not result.refused]
    if output == "yaml":
        return as_yaml(items)
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    return json_text(items[0] if len(results) == len(items) == 1 else listed)
