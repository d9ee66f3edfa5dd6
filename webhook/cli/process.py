"""The processes `serve` and `controller`, which run until a signal."""

import argparse
import ctypes
import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

import uvloop

from webhook.api.failures import InputError
from webhook.app.runtime import Process, supervise
from webhook.cli.files import read_manifests
from webhook.config.configuration import Settings
from webhook.config.sources import add_flags, read_settings
from webhook.logging.log import DescriptorOutput, Format, Log, as_json, form_of

_EPILOG: Final = (
    "examples:\n{}\n\n"
    "exit status: 0 ended by a signal, 1 a part of the process failed, 2 it cannot start"
)
_EXAMPLES: Final = {
    "serve": (
        "  ray-webhook serve --config settings.yaml\n"
        "  ray-webhook serve --standalone --state examples --tls.cert-dir certs\n\n"
        "Every setting can be a flag, a variable such as RAY_WEBHOOK_LOG__FORMAT, or stand in a "
        "file: docs/settings.md."
    ),
    "controller": (
        "  ray-webhook controller --config settings.yaml\n"
        "  ray-webhook controller --kubeconfig ~/.kube/config --installation.namespace ray-webhook"
        "\n\ndocs/settings.md describes the file and the variables."
    ),
}
_PORTS: Final = {
    "serve": "{0.serving.port} or {0.listen.admin_port}",
    "controller": "{0.listen.admin_port}",
}


def add_arguments(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the help text and the flags of a process."""
    parser.epilog = _EPILOG.format(_EXAMPLES[name])
    add_flags(name, parser)


def run(name: str, arguments: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Run a process until a signal; return 0 then, or 1 if a part failed. Raises InputError if the
    start failed.
    """
    add_arguments(name, parser)
    try:
        settings = read_settings(arguments, name, parser)
    except InputError as error:
        message = f"{error}\nsee `{parser.prog} --help` for every setting"
        raise InputError(message) from None
    # Only the process that runs is imported: each takes memory that the other does not need.
    build = import_module(f"webhook.app.{name}").build
    try:
        state = [read_manifests(settings.state)] if name == "serve" else []
        process: Process = build(settings, DescriptorOutput(sys.stdout.fileno()), *state)
        bound = process.bind()
    except OSError as error:
        ports, host = _PORTS[name].format(settings), settings.listen.host or "all addresses"
        message = f"cannot listen on port {ports} of {host}: {error.strerror}; choose others"
        raise InputError(message) from None
    announce(_addresses(name, settings, *bound), name, settings.log.format)
    started = "listening for reviews" if name == "serve" else "following the cluster"
    return uvloop.run(live(process, started))


def _addresses(name: str, settings: Settings, port: int, admin: int = 0) -> str:
    listen_host = settings.listen.host
    loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared
    host = loopback.get(listen_host, listen_host)
    if ":" in host:
        host = f"[{host}]"
    if name == "serve":
        state = "is ready" if settings.standalone else "listens"
        return (
            f"ray-webhook {state}: https://{host}:{port}/mutate, and http://{host}:{admin}/readyz "
            "for its readiness"
        )
    return f"ray-webhook controller: http://{host}:{port}/readyz says when it is ready"


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 512 * 1024
"""A size in bytes above the 256 KiB that uvloop allocates for each read of a TLS connection:
allocating these from the system, and returning them, took a tenth of the time of a review."""

_SPARE: Final = 1024 * 1024


def give_back() -> None:
    """Return large allocations and the end of the heap to the system when they are freed.

    Without this, glibc raises both thresholds to the size of the first large allocation that is
    freed. C libraries other than glibc have no such thresholds.
    """
    with suppress(AttributeError, OSError):
        glibc = ctypes.CDLL(None)
        glibc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        glibc.mallopt(_M_TRIM_THRESHOLD, _SPARE)


_YOUNG_OBJECTS: Final = 2_000
"""The threshold of the youngest generation of the garbage collector, 700 by default. Reviews create
no lasting cycles, and collections took 3 % of their CPU time; with 10,000, the objects no longer
fit into the CPU's caches."""
_YOUNG_COLLECTIONS: Final = 10
_MIDDLE_COLLECTIONS: Final = 100
"""The threshold of the oldest generation, 10 by default. 100,000 pods come into being in fewer
collections of the middle one: full collections while they are listed held the event loop for half
a second."""


def announce(text: str, process: str, wanted: Format) -> None:
    """Write to standard error where the process listens, before it runs: text on a terminal, else a
    line in the format of the log, since a container has one log of both streams.
    """
    log, errors = DescriptorOutput(sys.stdout.fileno()), DescriptorOutput(sys.stderr.fileno())
    if errors.terminal or form_of(wanted, log) is not as_json:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    else:
        Log(errors, process).event("info", "listening", text)


def settle() -> None:
    """Prepare the memory of a process that is started: objects that exist now are kept, and full
    collections, which would traverse all objects of a large cluster at once, are rare.
    """
    give_back()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
    gc.enable()


async def live(process: Process, started: str) -> int:
    """Run until a signal and return 0, or 1 if a part failed."""
    settle()
    process.log.event("info", "started", started)
    try:
        try:
            await supervise(process.runnables, process.drain)
        finally:
            process.flush()
    except ExceptionGroup as group:
        for error in group.exceptions:
            process.log.event("error", "ended", f"{type(error).__name__}: {error}")
        return 1
    process.log.event("info", "stopped", "stopped by a signal")
    return 0
