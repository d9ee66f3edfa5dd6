"""`ray-webhook serve` as a process, on free ports of loopback."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from webhook.cli.main import main

SECONDS = 180
"""How long a test waits for what always comes: a busy machine takes its time."""

PROGRAM = ("-m", "webhook.cli.main")
"""What Python runs."""


class Running(NamedTuple):
    """A server that answers: its URLs, certificate authority, process and log."""

    url: str
    admin: str
    authority: Path
    process: subprocess.Popen[str]
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


@contextmanager
def serving(
    directory: Path,
    state: Sequence[Path] | None,
    *flags: str,
    launcher: Sequence[str] = (),
    program: Sequence[str] = PROGRAM,
) -> Iterator[Running]:
    """Serve `state` standalone during the block, or a cluster, with a certificate issued into
    `directory`.
    """
    with redirect_stdout(StringIO()):
        assert main(["certs", "issue", "--dir", str(directory)]) == 0
    log = directory / "log.jsonl"
    command = [*launcher, sys.executable, *program, "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--admin-port", "0", "--tls.cert-dir", str(directory), *flags]
    if state is not None:
        command += ["--standalone", *(f"--state={path}" for path in state)]
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            url, admin = ready(process)
            yield Running(url, admin, directory / "ca.crt", process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def ready(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for the ready line. Raises RuntimeError with the output when the server ends instead."""
    said = []
    for line in process.stderr or ():
        said.append(line)
        found = re.search(r"(?:ready|listens): (https://\S+)/mutate, and (http://\S+)/readyz", line)
        if found:
            return found[1], found[2]
    msg = f"the server did not start: {''.join(said)}"
    raise RuntimeError(msg)


@contextmanager
def serving_dashboard(*flags: str) -> Iterator[str]:
    """Run `ray-webhook dashboard` on a free port, and yield the address that it prints; it has to
    end well by a signal.
    """
    command = [sys.executable, *PROGRAM, "dashboard", "--port", "0", *flags]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={"PATH": "/usr/bin"}
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\S+", line)
            assert found, line + process.stderr.read()
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0
