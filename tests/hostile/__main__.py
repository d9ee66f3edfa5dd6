"""Runs every attack, or those named: `python -m tests.hostile [--seconds 6] [NAME...]`. Writes
docs/hardening.md after all.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests.conftest import EXAMPLES
from tests.hostile.attacks import ATTACKS
from tests.hostile.beside import STATES, Beside, Record, beside
from tests.pages import folded
from tests.server import Running, serving
from webhook.http.bounds import Bounds

PAGE: Final = Path(__file__).parents[2] / "docs" / "hardening.md"
_QUIET: Final = "(nothing)"
P99: Final = 0.05
"""Seconds; or three times what is seen without an attack, where that is more."""

PAGE_TEXT: Final = """\
# Hardening

<!-- Written by `make hostile`. -->

Bounds on what clients may hold of the review port and of the plain port, and what happens to a
client that wants more:

| what | bound | above it |
|---|---|---|
{listed}

When the bodies in flight are too many, the largest incomplete one is given up first, so that a
small review still gets through. Large bodies are read in turns, a few in each round of the event
loop. When there are too many connections, those that never sent a request are closed before those
that did, unless they are few.

`make hostile` runs each attack against a server of its own, which has one core, from another core
(for this table: {cores} cores in all, shared with other work). Meanwhile a well-behaved client
sends reviews, on one connection that it keeps and on a new connection for each, and something asks
for `/livez` and `/readyz`. Times are in milliseconds; memory is the peak of the process in MiB. The
load average was {load:.0f}: compare each row only with the first one.

| attack | port | connections | kept: answered/asked | new | probes | kept: p99 | new | probes | peak |
|---|---|---|---|---|---|---|---|---|---|
{rows}

No peak is above 256 MiB but that of `many-bodies`, which may reach 320: 63 MB of bodies are within
their bound, and the TLS connections that they come on hold twice as much in buffers, which the bound
does not count. A container has 512 MiB.

`python -m tests.hostile.bodies --count 1000000 --seed 1` sends about a million fuzzed bodies to the
endpoints of a service, within one process and with its caches: reviews of pods and Ray objects of
which parts are changed, left out, doubled or moved, and reviews whose bytes are damaged. About half
get a verdict and the rest a 400; one that gets a 500 ends the run and is printed.

Out of scope: floods of handshakes. A TLS handshake takes the server about as long as ten reviews,
and a flood cannot be told from many API servers that start at once. Where anything but API servers
can reach the port, keep it out with a NetworkPolicy or `tls.client_ca`; see
[SECURITY.md](../SECURITY.md).
"""  # noqa: E501 - the head of a table


class Row(NamedTuple):
    """One attack, and what was seen beside it."""

    name: str
    port: str
    what: str
    seen: Beside

    def cells(self) -> str:
        """Return the row of the table."""
        answered = [f"{len(record.took)}/{record.asked}" for record in self.seen.records]
        p99 = [f"{record.p99 * 1000:.0f}" for record in self.seen.records]
        return (
            f"| {self.name} | {self.port} | {self.what} | {' | '.join([*answered, *p99])} | "
            f"{self.seen.peak:.0f} |"
        )


def main() -> int:
    """Attack, print, and write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile", description="Attack a server of its own on loopback."
    )
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument(
        "names", nargs="*", default=[], metavar="NAME", help=f"of {', '.join(ATTACKS)}"
    )
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    for name in (_QUIET, *(arguments.names or ATTACKS)):
        row = _attacked(name, arguments.seconds, (cores[0], cores[-1]))
        sys.stdout.write(row.cells() + "\n")
        sys.stdout.flush()
        rows += [row]
    if not arguments.names:
        PAGE.write_text(page(rows, len(cores)), encoding="utf-8")
    missed = [line for row in rows[1:] for line in misses(row, rows[0])]
    sys.stdout.writelines(f"{line}\n" for line in missed)
    return 1 if missed else 0


def misses(row: Row, quiet: Row) -> Iterable[str]:
    """Yield what a row shows that should not be."""
    if row.seen.peak > ATTACKS[row.name].peak:
        yield f"{row.name}: {row.seen.peak:.0f} MiB"
    for record, undisturbed in zip(row.seen.records, quiet.seen.records, strict=True):
        if record.lost:
            yield f"{row.name}: {record.lost[0]}"
        if record.p99 > _limit(undisturbed):
            yield (
                f"{row.name}: p99 of {record.p99 * 1000:.0f} ms, above "
                f"{_limit(undisturbed) * 1000:.0f}"
            )


def _limit(undisturbed: Record) -> float:
    return max(P99, 3 * undisturbed.p99)


def _attacked(name: str, seconds: float, cores: tuple[int, int]) -> Row:
    """Attack a server of its own, which has one core, from the other one."""
    pins = [("taskset", "-c", str(core)) if shutil.which("taskset") else () for core in cores]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), [EXAMPLES, *STATES], launcher=pins[0]) as server,
    ):
        if name == _QUIET:
            with beside(server) as seen:
                time.sleep(seconds)
            return Row(name, "", "no attack", seen)
        with beside(server) as seen:
            _attack(name, server, max(seconds, ATTACKS[name].seconds), pins[1])
        return Row(
            name, ATTACKS[name].port, f"{ATTACKS[name].connections} with {ATTACKS[name].what}", seen
        )


def _attack(name: str, server: Running, seconds: float, pin: tuple[str, ...]) -> None:
    command = [
        *pin,
        sys.executable,
        "-m",
        "tests.hostile.attacks",
        name,
        server.url,
        server.admin,
        str(seconds),
    ]
    subprocess.run(command, check=True, timeout=seconds + 60)


def page(rows: Iterable[Row], cores: int) -> str:
    """Return the page."""
    bounds = Bounds()
    listed = (
        (
            "request line, headers and trailers",
            f"{bounds.head // 1024} KiB, {bounds.headers} of them",
            "431",
        ),
        (
            "bodies in flight, all connections",
            f"{bounds.in_flight // 2**20} MiB (`serving.in_flight_mib`)",
            "503, `Retry-After: 1`",
        ),
        (
            "requests queued behind another, one connection",
            f"{bounds.queue}",
            "503, `Retry-After: 1`",
        ),
        (
            "answers that are not taken",
            f"{bounds.in_flight // 2**20} MiB, {bounds.request_seconds} s",
            "closed",
        ),
        (
            "from the connection to the first byte, handshake included",
            f"{bounds.first_byte} s",
            "closed",
        ),
        ("from the first byte to the end of the head", f"{bounds.head_seconds} s", "closed"),
        ("from the first byte to the end of the body", f"{bounds.request_seconds} s", "closed"),
        (
            "between requests",
            f"{bounds.idle_seconds} s; kube-apiserver gives up after 90",
            "closed",
        ),
        (
            "connections, each port",
            f"{bounds.connections} (`serving.connections`)",
            "those that wait longest are closed",
        ),
    )
    return folded(
        PAGE_TEXT.format(
            listed="\n".join(f"| {' | '.join(cells)} |" for cells in listed),
            cores=cores,
            load=os.getloadavg()[1],
            rows="\n".join(row.cells() for row in rows),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
