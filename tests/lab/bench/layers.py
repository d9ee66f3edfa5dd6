"""Server CPU saved by each layer around the plain path of a review, measured without it and with
all layers at the same time.

Servers alternate in batches of 320 reviews, about 60 ms, over persistent connections, so a change
of the clock rate affects all of them. A second server with all layers shows the precision of the
figures.
"""

import asyncio
import os
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from time import monotonic

import uvloop

from tests.lab.bench.load import Connection, connected, posts
from tests.lab.bench.reviews import Body, review_bodies
from tests.lab.bench.reviews_over_https import Target, cpu_seconds, say, webhook
from tests.lab.bench.without import LAYERS

SECONDS = 90.0
"""For each of the bodies."""
CONNECTIONS = 16
REVIEWS = 20
"""Of each connection in a turn."""
WARMING = 5
ALL = "nothing"
AGAIN = "nothing, again"


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    server, client = cores[0], cores[-1]
    say(
        f"server CPU us a review without a layer, and how much more that is than with all of them; "
        f"{CONNECTIONS} connections;"
    )
    say(
        f"means over {SECONDS:.0f} s in which servers take turns of {CONNECTIONS * REVIEWS} "
        "reviews, and in brackets the median of the ratios turn by turn"
    )
    pin = ("taskset", "-c", str(server)) if shutil.which("taskset") and server != client else ()
    with tempfile.TemporaryDirectory() as folder:
        os.sched_setaffinity(0, {client})
        for kind in Body:
            _compare(kind, Path(folder) / kind, pin)
        os.sched_setaffinity(0, set(cores))


def _compare(kind: Body, folder: Path, pin: tuple[str, ...]) -> None:
    folder.mkdir()
    names = [*LAYERS, AGAIN]
    with ExitStack() as stack:
        targets = [
            Target(
                name,
                stack.enter_context(
                    webhook(
                        folder / str(number), pin, ("-m", "tests.lab.bench.without", _layer(name))
                    )
                ),
                posts(review_bodies(kind), "/mutate"),
            )
            for number, name in enumerate(names)
        ]
        taken = uvloop.run(_in_turns(targets))
    say(f"\n{kind:<10} {'without':<16} {'CPU us':>8} {'gain':>7} {'median':>9}")
    for name in names:
        mean = statistics.fmean(taken[name])
        gain = mean / statistics.fmean(taken[ALL]) - 1
        ratios = [one / other for one, other in zip(taken[name], taken[ALL], strict=True)]
        median = f"({statistics.median(ratios) - 1:.1%})"
        say(f"{'':<10} {name:<16} {mean:>8.1f} {gain:>7.1%} {median:>9}")


def _layer(name: str) -> str:
    return ALL if name == AGAIN else name


async def _in_turns(targets: list[Target]) -> dict[str, list[float]]:
    """Return the server CPU of a review in each turn of each target, in microseconds."""
    pools = {
        target.name: await connected(target.server.port, target.server.authority, CONNECTIONS)
        for target in targets
    }
    for target in targets * WARMING:
        await _turn(target, pools[target.name])
    taken: dict[str, list[float]] = {target.name: [] for target in targets}
    end = monotonic() + SECONDS
    while monotonic() < end:
        for target in targets:
            pid = target.server.process.pid
            before = cpu_seconds(pid)
            await _turn(target, pools[target.name])
            used = cpu_seconds(pid) - before
            taken[target.name].append(used / (CONNECTIONS * REVIEWS) * 1e6)
        targets = [*targets[1:], targets[0]]
    for connection in chain.from_iterable(pools.values()):
        connection.close()
    return taken


async def _turn(target: Target, pool: list[Connection]) -> None:
    async def post(connection: Connection) -> None:
        for _ in range(REVIEWS):
            await connection.post(next(target.requests))

    await asyncio.gather(*map(post, pool))
