"""The log: for each event one line of JSON, or of text with the most important part first."""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from textwrap import indent
from time import time
from traceback import format_exception
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct

from webhook.api.formats import escape_json, many_lines, one_line, shorten


class Output(Protocol):
    """The output of lines."""

    def write(self, lines: bytes, /) -> object:
        """Write one or more lines."""


class DescriptorOutput:
    """Writes to a file descriptor, unbuffered. A line that cannot be written is lost."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def terminal(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, lines: bytes, /) -> None:
        rest = memoryview(lines)
        try:
            # A pipe or file may take a part of the lines only.
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return


class Admission(Struct, omit_defaults=True, gc=False):
    """One review. `name` is the object's name or `generateName`.

    `rules` are those that denied the object or warned of it; an admitted worker has a replica and a
    host, and every pod of Ray the names of its RayCluster and group.
    """

    time: str
    level: str
    event: str
    uid: str
    kind: str
    namespace: str
    name: str
    operation: str
    verdict: str
    ms: float
    dry_run: bool = False
    reasons: list[str] = []
    warnings: int = 0
    rules: tuple[str, ...] = ()
    cluster: str = ""
    group: str = ""
    replica: int = -1
    host: int = -1


class LogEvent(Struct, omit_defaults=True):
    """Any other event, with its process: `serve` or `controller`."""

    time: str
    level: str
    process: str
    event: str
    message: str
    status: int = 0
    trace: str = ""


Record = Admission | LogEvent

_FOLLOWED: Final = {
    "webhook": logging.INFO,
    "uvicorn.error": logging.WARNING,  # the start and the stop are logged by this package
    "asyncio": logging.WARNING,
}
"""Loggers whose records are written to the log, with the minimum level of each."""

Form = Callable[[Sequence[Record]], bytes]
"""A function that formats records as lines."""

_encoder: Final = msgspec.json.Encoder()


def as_json(records: Sequence[Record]) -> bytes:
    """Return records as lines of JSON."""
    return escape_json(_encoder.encode_lines(records).decode()).encode()


_MESSAGE: Final = 2000
_TRACE: Final = 20_000
"""Characters of an event: messages contain names and reasons of objects."""


class Log:
    """Writes lines to a stream. Reasons name fields, never values, which may be secrets."""

    def __init__(self, output: Output, process: str = "serve", form: Form = as_json) -> None:
        self._output = output
        self._process = process
        self._form = form

    def write(self, records: Sequence[Record]) -> None:
        self._output.write(self._form(records))

    def event(self, level: str, event: str, message: str, status: int = 0, trace: str = "") -> None:
        """Write an event with its level (`info`, `warning`, `error`). Long texts are shortened."""
        short_message, trace = shorten(message, _MESSAGE), shorten(trace, _TRACE)
        self.write(
            [
                LogEvent(
                    timestamp(time()),
                    level,
                    process=self._process,
                    event=event,
                    message=short_message,
                    status=status,
                    trace=trace,
                )
            ]
        )


class _Follower(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        trace = "".join(format_exception(error)) if error else ""
        message = record.getMessage()
        self._log.event(record.levelname.lower(), record.name, message.strip(), trace=trace)


def follow_logs(log: Log) -> None:
    """Send the records of this package, uvicorn and the event loop to the log only."""
    for name, level in _FOLLOWED.items():
        logger = logging.getLogger(name)
        logger.handlers = [_Follower(log)]
        logger.setLevel(level)
        logger.propagate = False


def timestamp(seconds: float) -> str:
    """Return a time since the epoch in UTC, to the millisecond."""
    utc_time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return f"{utc_time.removesuffix('+00:00')}Z"


Format = Literal["auto", "json", "text"]


def form_of(wanted: Format, output: Output) -> Form:
    """Return the function that formats lines: `auto` is text on a terminal, else JSON."""
    terminal = isinstance(output, DescriptorOutput) and output.terminal
    return readable if wanted == "text" or (wanted == "auto" and terminal) else as_json


def readable(records: Sequence[Record]) -> bytes:
    """Return records as lines of text. Untrusted text never starts a line: a trace is indented."""
    lines = (
        _admission(record) if isinstance(record, Admission) else _event(record)
        for record in records
    )
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _admission(line: Admission) -> str:
    """Return `01:36:29 patched  CREATE Pod ml/llama-worker-  llama/tpu replica 0 host 3
    1.2 ms`.
    """
    summary = f"{line.verdict:<8} {line.operation} {line.kind} {line.namespace}/{line.name}"
    parts = [_clock(line.time), summary, _place(line), *(["dry run"] if line.dry_run else [])]
    parts += [", ".join(line.rules or line.reasons)]
    if line.warnings:
        parts.append(f"{line.warnings} warning{'s' if line.warnings > 1 else ''}")
    return one_line("  ".join(filter(None, [*parts, f"{line.ms:g} ms"])))


def _place(line: Admission) -> str:
    if not line.group:
        return ""
    identity = f" replica {line.replica} host {line.host}" if line.replica >= 0 else ""
    return f"{line.cluster}/{line.group}{identity}"


def _event(line: LogEvent) -> str:
    status = f" {line.status}" if line.status else ""
    first_line = one_line(
        f"{_clock(line.time)}  {line.level:<8} {line.event}{status}: {line.message}"
    )
    return (
        f"{first_line}\n{indent(many_lines(line.trace.rstrip()), '  ')}"
        if line.trace
        else first_line
    )


def _clock(time: str) -> str:
    return time[11:19]
