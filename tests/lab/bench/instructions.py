"""Instructions per review, counted by valgrind's callgrind, independent of other load. Instructions
of the kernel are not counted, and batches are smaller than at full speed.
"""

import re
import shutil
import subprocess
import tempfile
from itertools import islice
from math import inf
from pathlib import Path

from tests.lab.bench.load import drive, posts
from tests.lab.bench.reviews import Body, review_bodies
from tests.lab.bench.reviews_over_https import say, webhook

CONNECTIONS = 8
REVIEWS = 400
"""Before and while instructions are counted."""


def main() -> None:
    if shutil.which("valgrind") is None:
        say("instructions: not run, since valgrind, a Debian package, is not installed")
        return
    say("instructions a review, in thousands:")
    with tempfile.TemporaryDirectory() as folder:
        for kind in Body:
            say(f"  {kind:<10} {_counted(kind, Path(folder) / kind) / 1e3:>9.1f}")


def _counted(kind: Body, folder: Path) -> float:
    counts = folder.with_suffix(".callgrind")
    launcher = ("env", "PYTHONHASHSEED=0", "valgrind", "--tool=callgrind", "--instr-atstart=no")
    with webhook(folder, (*launcher, f"--callgrind-out-file={counts}")) as server:
        requests = posts(review_bodies(kind), "/mutate")

        def post() -> None:
            some = islice(requests, REVIEWS)
            drive(server.port, server.authority, some, connections=CONNECTIONS, seconds=inf)

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
