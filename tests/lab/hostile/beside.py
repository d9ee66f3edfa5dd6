"""The load beside an attack: a well-behaved client, and the probes of the kubelet."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests import ROOT
from tests.harness.apiserver import pod_review
from tests.harness.objects import worker
from tests.harness.server import Running

STATES = [ROOT / "tests" / "state.yaml", Path(__file__).parent / "state.yaml"]
"""What the attacked server knows beside the examples."""

BODY = json.dumps(pod_review(worker("plain"), dry_run=True)).encode()


@dataclass
class Record:
    """How often was asked, the seconds of each answer, and what was wrong with the others."""

    asked: int = 0
    took: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        return sorted(self.took)[int(len(self.took) * 0.99)] if self.took else float("inf")


@dataclass
class Beside:
    """What the good clients saw, and the memory of the server in MiB."""

    kept: Record = field(default_factory=Record)
    """Reviews over a connection that is kept, as kube-apiserver's are."""
    fresh: Record = field(default_factory=Record)
    """Reviews over a new connection each."""
    probes: Record = field(default_factory=Record)
    peak: float = 0.0

    @property
    def records(self) -> tuple[Record, ...]:
        return self.kept, self.fresh, self.probes


@contextmanager
def beside(server: Running, pause: float = 0.02) -> Iterator[Beside]:
    seen, stop = Beside(), threading.Event()
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # forgets the peak
    kept, fresh = _connection(server), _connection(server)
    asked = (
        (seen.kept, _reviews(kept, kept=True)),
        (seen.fresh, _reviews(fresh, kept=False)),
        (seen.probes, _probes(server)),
    )
    threads = [
        threading.Thread(target=_ask, args=(record, ask, stop, pause)) for record, ask in asked
    ]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        kept.close()
        fresh.close()
        seen.peak, _ = memory(server.process.pid)


def memory(pid: int) -> tuple[float, float]:
    """Return the memory of a process in MiB: at most, and now."""
    lines = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(lines["VmHWM"].split()[0]) / 1024, int(lines["VmRSS"].split()[0]) / 1024


def _ask(record: Record, ask: Callable[[], None], stop: threading.Event, pause: float) -> None:
    while not stop.wait(pause):
        record.asked += 1
        started = time.perf_counter()
        try:
            ask()
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            record.lost.append(repr(error))
        else:
            record.took.append(time.perf_counter() - started)


def _connection(server: Running) -> http.client.HTTPSConnection:
    url = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.authority))
    return http.client.HTTPSConnection(str(url.hostname), url.port, timeout=90, context=context)


def _reviews(connection: http.client.HTTPSConnection, *, kept: bool) -> Callable[[], None]:
    def ask() -> None:
        if not kept:
            connection.close()
        try:
            connection.request("POST", "/mutate", BODY, {"content-type": "application/json"})
            _check(connection.getresponse(), b'"allowed":true')
        except (OSError, http.client.HTTPException, RuntimeError):
            connection.close()
            raise

    return ask


def _probes(server: Running) -> Callable[[], None]:
    url = urlsplit(server.admin)
    turn = 0

    def ask() -> None:
        nonlocal turn
        turn += 1
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=90)
        try:
            connection.request("GET", ("/livez", "/readyz")[turn % 2])
            _check(connection.getresponse(), b"")
        finally:
            connection.close()

    return ask


def _check(answer: http.client.HTTPResponse, holds: bytes) -> None:
    body = answer.read()
    if answer.status != http.client.OK or holds not in body:
        raise RuntimeError(f"{answer.status} {body[:200]!r}")
