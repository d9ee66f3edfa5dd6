"""The log: one line of JSON for each thing that happened."""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from time import time
from traceback import format_exception
from typing import Final, Protocol

import msgspec
from msgspec import Struct


class Output(Protocol):
    """Where lines go."""

    def write(self, lines: bytes, /) -> object:
        """Write one line or more."""


class DescriptorOutput:
    """Writes to a file descriptor, at once. Lines that it does not take are lost: reviews go on,
    and there is nowhere to say it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def terminal(self) -> bool:
        """Return whether somebody may be reading along."""
        return os.isatty(self._descriptor)

    def write(self, lines: bytes, /) -> None:
        """Write one line or more, all of it."""
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return


class Admission(Struct, omit_defaults=True, gc=False):
    """One review. `name` is the object's, or the `generateName` it will get its name from.

    `rules` are those that refused it or warned of it; a worker that was admitted has a replica and
    a host, and every pod of Ray the names of its RayCluster and group.
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


class Event(Struct, omit_defaults=True):
    """Anything else, with the process that it happened in: `serve` or `controller`."""

    time: str
    level: str
    process: str
    event: str
    message: str
    status: int = 0
    trace: str = ""


Record = Admission | Event

_FOLLOWED: Final = {
    "webhook": logging.INFO,
    "uvicorn.error": logging.WARNING,  # we say ourselves when a process starts and stops
    "asyncio": logging.WARNING,
}
"""Loggers whose lines become ours, from which level on."""

Form = Callable[[Sequence[Record]], bytes]
"""Makes lines of records."""

as_json: Final[Form] = msgspec.json.Encoder().encode_lines


class Log:
    """Writes lines to a stream. Reasons name fields, never values: those may be secrets."""

    def __init__(self, output: Output, process: str = "serve", form: Form = as_json) -> None:
        self._output = output
        self._process = process
        self._form = form

    def write(self, records: Sequence[Record]) -> None:
        """Write records, a line each."""
        self._output.write(self._form(records))

    def event(self, level: str, event: str, message: str, status: int = 0, trace: str = "") -> None:
        """Write what happened, with its level (`info`, `warning`, `error`)."""
        self.write([Event(timestamp(time()), level, self._process, event, message, status, trace)])


class _Follower(logging.Handler):
    """Writes the records of a logger to the log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        trace = "".join(format_exception(error)) if (error := _error_of(record)) else ""
        text = record.getMessage()
        self._log.event(record.levelname.lower(), record.name, text.strip(), trace=trace)


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def follow_logs(log: Log) -> None:
    """Let what our own modules, uvicorn and the event loop say go to the log, and nowhere else."""
    for name, level in _FOLLOWED.items():
        logger = logging.getLogger(name)
        logger.handlers = [_Follower(log)]
        logger.setLevel(level)
        logger.propagate = False


def timestamp(seconds: float) -> str:
    """Return a time since the epoch in UTC, to the millisecond."""
    return _millisecond(int(seconds * 1000))


@lru_cache(maxsize=1)
def _millisecond(milliseconds: int) -> str:
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
