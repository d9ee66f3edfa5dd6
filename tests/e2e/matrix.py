"""Run the tests on every pair of the matrix, and write docs/compatibility.md from the results.

A pair with results of the present code is not run again, so an interrupted run continues.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.e2e.compatibility import document
from tests.e2e.go import CANNOT_BUILD
from tests.e2e.outcomes import Outcomes, read
from tests.e2e.versions import KUBERAY_VARIABLE, KUBERNETES_VARIABLE, MATRIX, Pair

DOCUMENT: Final = ROOT / "docs" / "compatibility.md"
RUNNING: Final = ("webhook", "manifests", "examples", "tests/e2e")
"""Folders of what runs: when they change, every pair is to run again."""
IGNORED: Final = {
    "__pycache__", "tools", "matrix.py", "outcomes.py", "compatibility.py", "test_compatibility.py",
}  # fmt: skip
"""Of these, what decides nothing about a story: tools are built again when their pins change."""
PLANES: Final = "4"
"""Control planes that share the stories of a pair, which mostly wait."""
COMPLETE: Final = (0, 1)
"""The exit codes of pytest after which every story has run, whether it passed or not."""


class InterruptedRunError(Exception):
    """The stories of a pair did not come to their end."""


def main() -> int:
    """Runs what the command line asks for. Exit code 1: a story failed; 2: a pair did not come to
    its end.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = {f"{pair.kuberay}/{pair.kubernetes}": pair for pair in MATRIX}
    parser.add_argument(
        "pairs", nargs="*", metavar="PAIR", help=f"of {', '.join(names)}; default: all"
    )
    parser.add_argument(
        "--again", action="store_true", help="run pairs that ran with this code, too"
    )
    parser.add_argument(
        "--write", action="store_true", help="run nothing: write the document from what is there"
    )
    parser.add_argument(
        "--take",
        nargs="+",
        type=Path,
        metavar="REPORT",
        help=(
            "run nothing: stories of the one pair that is named ran elsewhere, and these JUnit "
            "reports of pytest say what came of them"
        ),
    )
    options = parser.parse_args()
    if unknown := [name for name in options.pairs if name not in names]:
        parser.error(f"no such pair: {', '.join(unknown)}")
    wanted = [names[name] for name in options.pairs] or list(MATRIX)
    if options.take:
        if len(options.pairs) != 1:
            parser.error("--take needs one pair")
        taken(wanted[0], options.take).save()
    try:
        for pair in [] if options.write or options.take else wanted:
            if options.again or not is_current(pair):
                _run(pair).save()
                _write()
    except InterruptedRunError as error:
        print(error, file=sys.stderr)
        return 2
    _write()
    return int(any(found.total("failed") for pair in wanted if (found := Outcomes.load(pair))))


def taken(pair: Pair, reports: Sequence[Path]) -> Outcomes:
    """What came of a pair by reports; what they do not tell of stays as it was. They do not say of
    which code they are: it counts as earlier code.
    """
    known = Outcomes.load(pair)
    stories = dict(known.stories) if known else {}
    for path in reports:
        stories |= read(path.read_text())
    ended = max(path.stat().st_mtime for path in reports)
    day = datetime.fromtimestamp(ended, UTC).date().isoformat()
    return Outcomes(pair.kuberay, pair.kubernetes, day=day, stories=stories)


def is_current(pair: Pair) -> bool:
    found = Outcomes.load(pair)
    return found is not None and not found.problem and found.state == state()


def state() -> str:
    """Names the code that runs: the webhook, what installs it, and the stories."""
    digest = hashlib.sha256()
    for folder in RUNNING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not IGNORED & {*path.parts, path.name}:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _write() -> None:
    results, now = {pair: Outcomes.load(pair) for pair in MATRIX}, state()
    DOCUMENT.write_text(document(results, now))


def _run(pair: Pair) -> Outcomes:
    environment = {
        **os.environ,
        KUBERAY_VARIABLE: pair.kuberay,
        KUBERNETES_VARIABLE: pair.kubernetes,
    }
    started, before, today = time.monotonic(), state(), datetime.now(UTC).date().isoformat()
    print(f"=== {pair}", flush=True)
    command = [sys.executable, "-m", "tests.e2e.build"]
    built = subprocess.run(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if built.returncode:
        print(built.stderr, file=sys.stderr)
        if built.returncode != CANNOT_BUILD:
            raise InterruptedRunError(f"{pair}: the build ended with code {built.returncode}")
        problem = built.stderr.strip().splitlines()[0].removeprefix("cannot build here: ")
        return Outcomes(pair.kuberay, pair.kubernetes, before, today, problem=problem)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", "tests/e2e", "-m", "e2e", "-q",
            *("-n", PLANES, "--dist", "loadfile"), f"--junitxml={report}",
        ]  # fmt: skip
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        if code not in COMPLETE:
            raise InterruptedRunError(
                f"{pair}: pytest ended with code {code}; `make matrix` continues with it"
            )
        stories = read(report.read_text())
    seconds = round(time.monotonic() - started)
    return Outcomes(pair.kuberay, pair.kubernetes, before, today, seconds, stories=stories)


if __name__ == "__main__":
    sys.exit(main())
