"""Checks of documents by the validation rules."""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.api import names
from webhook.cli.files import misnamed, text_in
from webhook.cli.parsing import bug
from webhook.cli.validation_report import Checked, Entry, Skipped
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_file

Outcome = Checked | ManifestError | Skipped

_VPA: Final = "VerticalPodAutoscaler"


def check_documents(
    found: Iterable[Manifest | ManifestError], settings: RuleSettings
) -> Iterator[Outcome]:
    """Yield the findings of each document."""
    for item in found:
        if isinstance(item, ManifestError):
            yield item
        elif item.kind in names.RAY_KINDS:
            yield _checked(item, settings)
        elif item.document is not None:
            yield misnamed(item) or Skipped(_unscalable(item))


def _checked(item: Manifest, settings: RuleSettings) -> Checked | ManifestError:
    name = _name(item)
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
        return ManifestError(item.file, item.line([]), text)
    entries.sort(key=lambda entry: entry.line)
    return Checked(item.file, name, tuple(entries), item.line(["metadata"]))


def _name(item: Manifest) -> str:
    """Return `RayCluster namespace/name`; with nothing after the slash for a generated name."""
    meta = item.metadata
    return f"{item.kind} {meta.get('namespace') or 'default'}/{meta.get('name') or ''}"


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
