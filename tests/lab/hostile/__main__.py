"""Run all attacks on servers of their own on loopback, and write docs/contributing/hardening.md."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from tests.conftest import EXAMPLES
from tests.harness.server import Running, serving
from tests.lab.hostile.attacks import ATTACKS
from tests.lab.hostile.beside import STATES, Beside, beside
from tests.pages.markdown import folded
from webhook.httpserver.body_budget import IN_FLIGHT_MAX
from webhook.httpserver.protocol import PortLimits
from webhook.httpserver.review_routes import BODY_MAX

PAGE: Final = ROOT / "docs" / "contributing" / "hardening.md"
_QUIET: Final = "(nothing)"
_SECONDS: Final = 6.0

PAGE_TEXT: Final = """\
# Hardening

<!-- Written by `make hostile`. -->

Bounds on what clients may hold of the review port and of the plain port, and what happens to a
client that wants more:

| what | bound | above it |
|---|---|---|
| request line and headers, or trailers | {head} KiB and what one read returns; {limits.headers} of them | 431 |
| large bodies in flight, all connections | {in_flight} MiB | 503, `Retry-After: 1`, for the largest that is incomplete |
| one body | {body} MiB | 413 |
| requests queued behind another, one connection | {limits.queue} | 503 |
| answers that are not taken | {unsent} MiB, {limits.request_seconds} s | closed |
| TLS handshake | {limits.first_seconds} s | closed |
| from the connection to the first byte | {limits.first_seconds} s | closed |
| from the first byte to the end of the body | {limits.request_seconds} s | closed |
| between requests | {limits.idle_seconds} s; kube-apiserver gives up after 90 | closed |
| connections, each port | {limits.connections}, and {half} of one address | those that wait for their clients are closed |

A body is large when it takes more than one read, or more than 64 KiB. When there are too many
connections, those without proof are closed first: of the address that has most of them, the oldest
first. Only an answered review, or a client certificate, is proof. After these, the connection that
is idle longest is closed; one that waits for an answer stays. Requests that are complete are
answered before anything that follows them is refused.

`make hostile` runs each attack against a server of its own, which has one core, from another core
(for this table: {cores} cores in all, shared with other work). In the meantime a well-behaved client
sends reviews, on one connection that it keeps and on a new connection for each, and something asks
for `/livez` and `/readyz`. Attackers have four addresses, and good clients another one. Times are
in milliseconds; memory is the peak of the process in MiB. The load average was {load:.0f}. A row
fails when a p99 is more than 10 times what the same server showed in the seconds before the attack;
50 times for `unfinished-bodies`, whose 690 MB arrive as fast as they can be decrypted.

| attack | port | connections | kept: answered/asked | new | probes | kept: p99 | new | probes | peak |
|---|---|---|---|---|---|---|---|---|---|
{rows}

No peak is above 256 MiB but that of `many-bodies`, which may reach 320: 63 MB of bodies are within
their bound, and the TLS connections that they come on hold twice as much in buffers, which the bound
does not count. A container has 512 MiB.

`make fuzz` sends fuzzed bodies to the endpoints of a service, within one process and with its caches:
reviews of pods and Ray objects of which parts are changed, left out, doubled or moved, and reviews
whose bytes are damaged. A body gets a verdict, whose patch applies, or a 400.

Out of scope: floods of handshakes. A TLS handshake takes the server about as long as ten reviews,
and a flood cannot be told from many API servers that start at once. Where anything but API servers
can reach the port, keep it out with a NetworkPolicy or `tls.clientCa`; see
[SECURITY.md](../../SECURITY.md).
"""  # noqa: E501 - rows of tables


class Row(NamedTuple):
    """One attack, and what was seen beside it and just before."""

    name: str
    port: str
    what: str
    seen: Beside
    quiet: Beside

    def cells(self) -> str:
        answered = [f"{len(record.took)}/{record.asked}" for record in self.seen.records]
        p99 = [f"{record.p99 * 1000:.0f}" for record in self.seen.records]
        return (
            f"| {self.name} | {self.port} | {self.what} | {' | '.join([*answered, *p99])} | "
            f"{self.seen.peak:.0f} |"
        )


def main() -> int:
    cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    for name in (_QUIET, *ATTACKS):
        row = _attacked(name, (cores[0], cores[-1]))
        sys.stdout.write(row.cells() + "\n")
        sys.stdout.flush()
        rows += [row]
    PAGE.write_text(page(rows, len(cores)), encoding="utf-8")
    missed = [line for row in rows[1:] for line in misses(row)]
    sys.stdout.writelines(f"{line}\n" for line in missed)
    return 1 if missed else 0


def misses(row: Row) -> Iterable[str]:
    """Yield what a row shows that should not be."""
    if row.seen.peak > ATTACKS[row.name].peak:
        yield f"{row.name}: {row.seen.peak:.0f} MiB"
    for record, undisturbed in zip(row.seen.records, row.quiet.records, strict=True):
        if record.lost:
            yield f"{row.name}: {record.lost[0]}"
        if record.p99 > ATTACKS[row.name].slower * undisturbed.p99:
            times = record.p99 / undisturbed.p99
            yield f"{row.name}: p99 is {times:.1f} times that before the attack"


def _attacked(name: str, cores: tuple[int, int]) -> Row:
    pins = [("taskset", "-c", str(core)) if shutil.which("taskset") else () for core in cores]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), [EXAMPLES, *STATES], launcher=pins[0]) as server,
    ):
        with beside(server) as quiet:
            time.sleep(_SECONDS if name == _QUIET else _SECONDS / 2)
        if name == _QUIET:
            return Row(name, "", "no attack", quiet, quiet)
        attack = ATTACKS[name]
        with beside(server) as seen:
            _attack(name, server, max(_SECONDS, attack.seconds), pins[1])
        what = f"{attack.connections} with {attack.what}"
        return Row(name, attack.port, what, seen, quiet)


def _attack(name: str, server: Running, seconds: float, pin: tuple[str, ...]) -> None:
    command = [
        *pin, sys.executable, "-m", "tests.lab.hostile.attacks", name, server.url, server.admin,
        str(seconds),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=seconds + 60)


def page(rows: Iterable[Row], cores: int) -> str:
    limits = PortLimits()
    return folded(
        PAGE_TEXT.format(
            limits=limits,
            head=limits.head // 1024,
            half=limits.connections // 2,
            unsent=limits.unsent // 2**20,
            in_flight=IN_FLIGHT_MAX // 2**20,
            body=BODY_MAX // 2**20,
            cores=cores,
            load=os.getloadavg()[1],
            rows="\n".join(row.cells() for row in rows),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
