"""Checks of documents, in several processes for many files, with progress on a terminal."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

from webhook.api import names
from webhook.cli.files import STDIN, misnamed, read_files, text_in
from webhook.cli.parsing import bug
from webhook.cli.validation_report import Checked, Entry, Skipped
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_file

Outcome = Checked | ManifestError | Skipped

_VPA: Final = "VerticalPodAutoscaler"
CHUNK: Final = 32
"""Files per task of a process."""
_APART_FROM: Final = 4 * CHUNK
"""The number of files from which several processes are faster despite their start time."""
_QUIET: Final = 1.0
_PERIOD: Final = 0.2
"""The delay before the first progress line and between updates, in seconds."""


def check_files(
    files: Sequence[str | ManifestError], settings: RuleSettings, jobs: int
) -> Iterator[Outcome]:
    """Yield the findings of each document in order. `jobs`: processes, 0 for one per core."""
    chunks = [files[at : at + CHUNK] for at in range(0, len(files), CHUNK)]
    jobs = min(jobs or os.cpu_count() or 1, len(chunks))
    progress = _Progress(len(files))
    checked = partial(_chunk, settings=settings)
    if jobs == 1 or len(files) < _APART_FROM or STDIN in files:
        for file in files:
            yield from checked([file])
            progress.advance(1)
    else:
        with ProcessPoolExecutor(jobs, initializer=_ignore_interrupts) as pool:
            for chunk, found in zip(chunks, pool.map(checked, chunks), strict=True):
                yield from found
                progress.advance(len(chunk))
    progress.end()


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


def _chunk(files: Sequence[str | ManifestError], settings: RuleSettings) -> list[Outcome]:
    found: list[Outcome] = []
    for file in files:
        if isinstance(file, ManifestError):
            found.append(file)
        else:
            found += check_documents(read_files([file]), settings)
    return found


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which the parent process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Progress:
    """A progress line on a terminal with the number of checked files."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._next = time.monotonic() + _QUIET if sys.stderr.isatty() else float("inf")
        self._shown = False

    def advance(self, files: int) -> None:
        """Count checked files."""
        self._done += files
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD
            self._write(f"{self._done} of {self._total} files")

    def end(self) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        self._shown = True
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


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
