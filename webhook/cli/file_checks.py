"""Checks of documents by the validation rules."""

from collections.abc import Iterable
from typing import Final

from webhook.api import names
from webhook.cli.files import misnamed, text_in
from webhook.cli.parsing import bug
from webhook.cli.validation_report import Entry, Report
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_file

_VPA: Final = "VerticalPodAutoscaler"


def check_documents(found: Iterable[Manifest | ManifestError], settings: RuleSettings) -> Report:
    """Return the findings of all documents, in order."""
    report = Report()
    files: dict[str, str] = {}
    """The first file of each object."""
    for item in found:
        if isinstance(item, ManifestError):
            report.problems.append(item)
        elif item.kind in names.RAY_KINDS:
            _check(item, settings, report, files)
        elif item.document is not None:
            if problem := misnamed(item):
                report.problems.append(problem)
                continue
            report.skipped += 1
            if note := _unscalable(item):
                report.notes.append(note)
    return report


def _check(item: Manifest, settings: RuleSettings, report: Report, files: dict[str, str]) -> None:
    """Add the findings of a Ray object to a report."""
    meta = item.metadata
    name = f"{item.kind} {meta.get('namespace') or 'default'}/{meta.get('name') or ''}"
    try:
        entries = [
            Entry(
                item.file,
                item.line(finding.field.tokens),
                finding.level,
                finding.rule,
                finding.path,
                finding.text,
            )
            for finding in check_file(item.kind, item.document, settings)
            if finding.level != OFF
        ]
    except Exception as error:  # noqa: BLE001 - no object keeps another from being checked
        text = f"{name} cannot be checked: {bug(error)}"
        report.problems.append(ManifestError(item.file, item.line([]), text))
        return
    report.objects += 1
    report.entries += sorted(entries, key=lambda entry: entry.line)
    if name in files:
        text = f"{name} is in {files[name]} as well: the last one applied counts"
        report.notes.append(ManifestError(item.file, item.line(["metadata"]), text))
    if meta.get("name"):
        files.setdefault(name, item.file)


def _unscalable(item: Manifest) -> ManifestError | None:
    """Return the note on a VerticalPodAutoscaler of a Ray object, which applies to no pod: it finds
    the pods of an object by its scale subresource, and Ray objects have none.

    https://github.com/kubernetes/autoscaler/issues/3060
    """
    held = item.document if isinstance(item.document, dict) else {}
    spec = held.get("spec")
    target = spec.get("targetRef") if isinstance(spec, dict) else None
    kind = text_in(target, "kind") if isinstance(target, dict) else ""
    if text_in(held, "kind") != _VPA or kind not in names.RAY_KINDS:
        return None
    text = (
        f"{_VPA} of a {kind}: no effect, as it has no scale subresource; remove it, or resize pods "
        f"by {names.ANNOTATION_IPPR}"
    )
    return ManifestError(item.file, item.line(["spec", "targetRef"]), text)
