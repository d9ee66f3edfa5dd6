"""Instructions per review, counted by valgrind's callgrind, independent of other load. Instructions
of the kernel are not counted, and batches are smaller than at full speed.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from math import inf
from pathlib import Path

from tests.lab.bench.layers import ALL
from tests.lab.bench.load import drive, posts
from tests.lab.bench.reviews import Body, review_bodies
from tests.lab.bench.reviews_over_https import say, webhook
from tests.lab.bench.without import COSTS

CONNECTIONS = 8
REVIEWS = 400
"""Before and while instructions are counted."""


def main() -> None:
    if shutil.which("valgrind") is None:
        say("instructions: not run, since valgrind, a Debian package, is not installed")
        return
    say("instructions a review without something, in thousands, and over that with everything:")
    say(f"{'without':<16}" + "".join(f"{kind:>18}" for kind in Body))
    counted = {name: _row(name) for name in (ALL, *COSTS)}
    for name, row in counted.items():
        cells = (
            f"{one / 1e3:>9.1f} {one / every - 1:>8.1%}"
            for one, every in zip(row, counted[ALL], strict=True)
        )
        say(f"{name:<16}" + "".join(cells))


def _row(name: str) -> Sequence[float]:
    """Return the instructions of a review of each body, without something."""
    with tempfile.TemporaryDirectory() as folder:
        return [_counted(name, kind, Path(folder) / kind) for kind in Body]


def _counted(name: str, kind: Body, folder: Path) -> float:
    counts = folder.with_suffix(".callgrind")
    launcher = (
        "env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", "--instr-atstart=no",
        f"--callgrind-out-file={counts}",
    )  # fmt: skip
    with ExitStack() as stack:
        server = stack.enter_context(
            webhook(folder, launcher, ("-m", "tests.lab.bench.without", name))
        )
        port = server.port
        requests = posts(review_bodies(kind), "/mutate")

        def post() -> None:
            some = islice(requests, REVIEWS)
            drive(port, server.authority, some, connections=CONNECTIONS, seconds=inf)

        post()
        _control(server.process.pid, "--instr=on")
        post()
        _control(server.process.pid, "--dump")
    totals = [
        int(found[1])
        for dump in counts.parent.glob(f"{counts.name}*")
        for found in re.finditer(r"^totals: (\d+)", dump.read_text(errors="replace"), re.MULTILINE)
    ]
    return max(totals) / REVIEWS


def _control(pid: int, order: str) -> None:
    subprocess.run(["callgrind_control", order, str(pid)], check=True, capture_output=True)
