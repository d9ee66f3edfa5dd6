"""Checks of documents by the validation rules, in several processes for many files."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

from msgspec import structs

from webhook.api import names
from webhook.api.namespace_limits import LIMIT_RANGE_KIND, QUOTA_KIND, read_namespaces
from webhook.cli.files import STDIN, check_type_meta, list_files, read_listed, text_in
from webhook.cli.kustomize import PatchError
from webhook.cli.parsing import bug
from webhook.cli.validation_report import FindingLine, ObjectLocation, Report
from webhook.groups.naming import headless_service
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.field import at
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import FixedNamespaces, RuleSettings
from webhook.validation.ruleset import check_file

CHUNK: Final = 32
"""Files per task of a process."""
_APART_FROM: Final = 4
"""The number of tasks from which several processes are faster despite their start time."""
_QUIET: Final = 1.0
_PERIOD: Final = 0.2
"""The delay before the first progress line and between updates, in seconds."""
_SCALERS: Final = {
    "VerticalPodAutoscaler": ("targetRef", f"resize pods by {names.ANNOTATION_IPPR}"),
    "HorizontalPodAutoscaler": ("scaleTargetRef", "set enableInTreeAutoscaling"),
    "ScaledObject": ("scaleTargetRef", "set enableInTreeAutoscaling"),
}
"""Kinds that scale an object by its scale subresource: their field with the object, and what to use
for a Ray object.
"""
_CLUSTERS: Final = {
    names.RAYCLUSTER_KIND: "",
    names.RAYJOB_KIND: "rayClusterSpec",
    names.RAYCRONJOB_KIND: "rayClusterSpec",
    names.RAYSERVICE_KIND: "rayClusterConfig",
}
_NEVER_READY: Final = "the RayCluster never becomes ready"
_TAKEN_OVER: Final = "KubeRay replaces ports and selector of this Service"
_Files = Sequence[str | ManifestError]
_LIMITING: Final = (QUOTA_KIND, LIMIT_RANGE_KIND)


def check_files(paths: Iterable[str], settings: RuleSettings, jobs: int) -> Report:
    """Return the findings of all files in order, checked by `jobs` processes; 0 for one per core.

    A terminal shows the number of checked files after a second.
    """
    files = [*list_files(paths)]
    settings = _with_limits(files, settings)
    chunks = [files[at : at + CHUNK] for at in range(0, len(files), CHUNK)]
    check = partial(_check_chunk, settings=settings)
    apart = len(chunks) >= _APART_FROM and STDIN not in files
    jobs = min(jobs or os.cpu_count() or 1, len(chunks)) if apart else 1
    next_line = time.monotonic() + _QUIET if sys.stderr.isatty() else inf
    progress_shown = False
    report = Report()
    for checked, part in enumerate(_reports(check, chunks, jobs), 1):
        report.add(part)
        if time.monotonic() >= next_line:
            next_line, progress_shown = time.monotonic() + _PERIOD, True
            _show(f"{min(checked * CHUNK, len(files))} of {len(files)} files")
    if progress_shown:
        _show("")
    report.remove_patches()
    report.note_duplicates()
    report.note_services()
    return report


def _reports(
    check: Callable[[_Files], Report], chunks: Sequence[_Files], jobs: int
) -> Iterator[Report]:
    """Yield the report of each chunk, in order. One job needs no pool, which is not available where
    semaphores are not.
    """
    if jobs == 1:
        yield from map(check, chunks)
        return
    with ProcessPoolExecutor(jobs, initializer=_ignore_interrupts) as pool:
        yield from pool.map(check, chunks)


def check_documents(found: Iterable[Manifest | ManifestError], settings: RuleSettings) -> Report:
    """Return the findings of all documents, in order."""
    report = Report()
    for item in found:
        if isinstance(item, PatchError):
            report.patches.append(item)
        elif isinstance(item, ManifestError):
            report.problems.append(item)
        elif item.kind in names.RAY_KINDS:
            _check(item, settings, report)
        elif item.document is not None:
            if problem := check_type_meta(item):
                report.problems.append(problem)
                continue
            report.skipped += 1
            _add_service(item, report)
            if note := _unscalable(item):
                report.notes.append(note)
    return report


def _with_limits(files: _Files, settings: RuleSettings) -> RuleSettings:
    """Return settings with the ResourceQuotas and LimitRanges of files. Standard input and pipes
    are read only once: then those of a chunk of files count for its objects.
    """
    if not all(map(os.path.isfile, (file for file in files if isinstance(file, str)))):
        return settings
    chosen = [file for file in files if isinstance(file, str) and _limits(file)]
    return _add_namespace_limits(read_listed(chosen), settings)


def _limits(file: str) -> bool:
    """Return whether a file may have a ResourceQuota or LimitRange."""
    try:
        data = Path(file).read_bytes()
    except OSError:
        return False  # reported when it is checked
    return any(kind.encode() in data for kind in _LIMITING)


def _add_namespace_limits(
    found: Iterable[Manifest | ManifestError], settings: RuleSettings
) -> RuleSettings:
    documents = (item.document for item in found if isinstance(item, Manifest))
    return structs.replace(settings, namespaces=FixedNamespaces(read_namespaces(documents)))


def _check_chunk(files: _Files, settings: RuleSettings) -> Report:
    if settings.namespaces is not None:
        return check_documents(read_listed(files), settings)
    documents = [*read_listed(files)]
    return check_documents(documents, _add_namespace_limits(documents, settings))


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which the parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _show(progress: str) -> None:
    sys.stderr.write(f"\r\x1b[K{progress}")
    sys.stderr.flush()


def _check(item: Manifest, settings: RuleSettings, report: Report) -> None:
    """Add the findings of a Ray object to a report."""
    meta = item.metadata
    name = f"{item.kind} {meta.get('namespace') or 'default'}/{meta.get('name') or ''}"
    try:
        entries = [
            FindingLine(
                item.file,
                item.line(finding.field.tokens),
                level=finding.level,
                rule=finding.rule,
                path=".".join(filter(None, (item.within, finding.path))),
                message=finding.text,
            )
            for finding in check_file(item.kind, item.document, settings, item.duplicates)
            if finding.level != OFF and not (item.within and _is_template(finding.field.value))
        ]
    except Exception as error:  # noqa: BLE001 - no object keeps another from being checked
        message = f"{name} cannot be checked: {bug(error)}"
        report.problems.append(ManifestError(item.file, item.line([]), message))
        return
    place = ObjectLocation(name, item.file, item.line(["metadata"]))
    report.objects.append(place)
    entries.sort(key=lambda entry: entry.line)
    report.entries += entries
    report.wanted += [(place, *service) for service in _services_of(item)]
    if _is_part(item):
        report.parts.append((place, entries))


def _is_template(value: object) -> bool:
    """Return whether a value is replaced before the object around it creates the Ray object."""
    return isinstance(value, str) and ("{{" in value or "${" in value)


def _add_service(item: Manifest, report: Report) -> None:
    """Add a Service to a report, unless it has the label by which KubeRay recognizes its own."""
    document = item.document if isinstance(item.document, dict) else {}
    labels = at(document, "metadata", "labels", names.LABEL_CLUSTER)
    if (text_in(document, "apiVersion"), text_in(document, "kind")) == (
        "v1",
        "Service",
    ) and not labels:
        name = f"{item.metadata.get('namespace') or 'default'}/{item.metadata.get('name') or ''}"
        place = ObjectLocation(f"Service {name}", item.file, item.line(["metadata"]))
        report.services.setdefault(name, place)


def _services_of(item: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the `namespace/name` of each Service that KubeRay writes for a RayCluster or a
    RayService, with the consequence if it exists: a RayService takes it over, by an update of its
    whole spec.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    (`BuildServiceForHeadPod`, `BuildHeadlessServiceForRayCluster`, `BuildServeService`)
    """
    spec, name = at(item.document, "spec"), item.metadata.get("name")
    if not isinstance(name, str) or not name:
        return
    prefix = f"{item.metadata.get('namespace') or 'default'}/"
    if item.kind == names.RAYCLUSTER_KIND:
        service_name = at(spec, "headGroupSpec", "headService", "metadata", "name")
        yield f"{prefix}{service_name or f'{name}-head-svc'}", _NEVER_READY
        groups = at(spec, "workerGroupSpecs")
        hosts = (at(group, "numOfHosts") for group in (groups if isinstance(groups, list) else ()))
        if any(type(number) is int and number > 1 for number in hosts):
            yield f"{prefix}{headless_service(name)}", _NEVER_READY
    elif item.kind == names.RAYSERVICE_KIND:
        service_name = at(spec, "serveService", "metadata", "name")
        yield f"{prefix}{name}-head-svc", _TAKEN_OVER
        yield f"{prefix}{service_name or f'{name}-serve-svc'}", _TAKEN_OVER


def _is_part(item: Manifest) -> bool:
    """Return whether an object has no head, and no other cluster to run on."""
    spec = at(item.document, "spec")
    if item.kind == names.RAYCRONJOB_KIND:
        spec = at(spec, "jobTemplate")
    below = _CLUSTERS[item.kind]
    cluster = at(spec, below) if below else spec
    return at(cluster, "headGroupSpec") is None and at(spec, "clusterSelector") is None


def _unscalable(item: Manifest) -> ManifestError | None:
    """Return the note on an autoscaler of a Ray object, such as a VerticalPodAutoscaler, which has
    no effect: it finds pods and replicas by the scale subresource, and Ray objects have none.

    https://github.com/kubernetes/autoscaler/issues/3060
    """
    document = item.document if isinstance(item.document, dict) else {}
    spec = document.get("spec")
    scaler = text_in(document, "kind")
    field, advice = _SCALERS.get(scaler, ("", ""))
    target = spec.get(field) if isinstance(spec, dict) else None
    kind = text_in(target, "kind") if isinstance(target, dict) else ""
    if kind not in names.RAY_KINDS:
        return None
    message = (
        f"{scaler} of a {kind}: no effect, as it has no scale subresource; remove it, or {advice}"
    )
    return ManifestError(item.file, item.line(["spec", field]), message)
