"""Log lines as text: a record per line, the most important part first."""

from collections.abc import Sequence
from textwrap import indent
from typing import Literal

from webhook.api.printable import many_lines, one_line
from webhook.logging.log import (
    Admission,
    DescriptorOutput,
    Event,
    Form,
    Output,
    Record,
    as_json,
)

Format = Literal["auto", "json", "text"]


def form_of(wanted: Format, output: Output) -> Form:
    """Return the function that formats lines: `auto` is text on a terminal, else JSON."""
    terminal = isinstance(output, DescriptorOutput) and output.terminal
    return readable if wanted == "text" or (wanted == "auto" and terminal) else as_json


def readable(records: Sequence[Record]) -> bytes:
    """Return records as lines of text. Untrusted text never starts a line: a trace is indented."""
    shown = (_admission(each) if isinstance(each, Admission) else _event(each) for each in records)
    return "".join(f"{text}\n" for text in shown).encode(errors="replace")


def _admission(line: Admission) -> str:
    """Return `01:36:29 patched  CREATE Pod ml/llama-worker-  llama/tpu replica 0 host 3
    1.2 ms`.
    """
    what = f"{line.verdict:<8} {line.operation} {line.kind} {line.namespace}/{line.name}"
    parts = [_clock(line.time), what, _place(line), *(["dry run"] if line.dry_run else [])]
    parts += [", ".join(line.rules or line.reasons)]
    if line.warnings:
        parts.append(f"{line.warnings} warning{'s' if line.warnings > 1 else ''}")
    return one_line("  ".join(filter(None, [*parts, f"{line.ms:g} ms"])))


def _place(line: Admission) -> str:
    if not line.group:
        return ""
    seat = f" replica {line.replica} host {line.host}" if line.replica >= 0 else ""
    return f"{line.cluster}/{line.group}{seat}"


def _event(line: Event) -> str:
    status = f" {line.status}" if line.status else ""
    text = one_line(f"{_clock(line.time)}  {line.level:<8} {line.event}{status}: {line.message}")
    return f"{text}\n{indent(many_lines(line.trace.rstrip()), '  ')}" if line.trace else text


def _clock(time: str) -> str:
    return time[11:19]
