"""What each layer around the plain path of a review gains: server CPU without it, beside all of
them in the same round.
"""

import os
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench.load import posts
from tests.bench.reviews import Body, review_bodies
from tests.bench.reviews_over_https import Target, measured, say, webhook
from tests.bench.without import LAYERS

ROUNDS = 21
FIFTH = 4
CONNECTIONS = 16
ALL = "nothing"


def main() -> None:
    """Measure and print."""
    cores = sorted(os.sched_getaffinity(0))
    server, client = cores[0], cores[-1]
    say(
        f"server CPU us a review without a layer, and over that with all of them; {CONNECTIONS} "
        "connections;"
    )
    say(
        f"the fifth least of {ROUNDS} rounds of 1 s, servers taking turns; gain is the ratio of "
        "these,"
    )
    say(
        "since what else the machine does only ever adds; beside it the median of the ratios "
        "round by round"
    )
    pin = ("taskset", "-c", str(server)) if shutil.which("taskset") and server != client else ()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.sched_setaffinity(0, {client})
        for kind in Body:
            _compare(kind, Path(folder) / kind, pin, stack)
        os.sched_setaffinity(0, set(cores))


def _compare(kind: Body, folder: Path, pin: tuple[str, ...], stack: ExitStack) -> None:
    folder.mkdir()
    targets = [
        Target(
            layer,
            stack.enter_context(
                webhook(folder / layer.replace(" ", "-"), pin, ("-m", "tests.bench.without", layer))
            ),
            posts(review_bodies(kind), "/mutate"),
        )
        for layer in LAYERS
    ]
    taken: dict[str, list[float]] = {target.name: [] for target in targets}
    for number in range(ROUNDS):
        for target in targets if number % 2 else reversed(targets):
            taken[target.name].append(measured(target, CONNECTIONS, 0.0).cpu)
    say(f"\n{kind:<10} {'without':<16} {'CPU us':>8} {'gain':>7} {'median':>7}")
    least = {layer: sorted(figures)[FIFTH] for layer, figures in taken.items()}
    for layer, figures in taken.items():
        ratios = [one / other for one, other in zip(figures, taken[ALL], strict=True)]
        gain = least[layer] / least[ALL] - 1
        median = statistics.median(ratios) - 1
        say(f"{'':<10} {layer:<16} {least[layer]:>8.1f} {gain:>7.1%} {median:>7.1%}")
