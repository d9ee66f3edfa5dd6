"""The output of a process on both streams, which form one log in a container."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.listener import until
from tests.harness.registry import registry
from tests.harness.server import PROGRAM

PORTS = ["--listen.admin-port=0"]
INSTALLED = [*PORTS, "--installation.namespace=n"]
COMMANDS = {"serve": [*INSTALLED, "--tls.source=self-signed", "--port=0"], "controller": INSTALLED}

STARTED = {"serve": "listening for reviews", "controller": "following the cluster"}


@pytest.mark.parametrize(
    ("command", "form"), [("serve", "json"), ("controller", "json"), ("controller", "text")]
)
def test_each_line_has_the_form_of_the_log(command: str, form: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with registry() as objects, log.open("w") as out:
        config = f"--kubeconfig={objects.kubeconfig(tmp_path)}"
        words = [command, *COMMANDS[command], f"--log.format={form}", config]
        program = [sys.executable, *PROGRAM, *words]
        with subprocess.Popen(program, stdout=out, stderr=subprocess.STDOUT) as process:
            until(lambda: STARTED[command] in log.read_text() or process.poll() is not None, 60)
            process.kill()
    lines = log.read_text().splitlines()
    assert any("/readyz" in line for line in lines)
    if form == "json":
        events = [json.loads(line) for line in lines]
        assert "listening" in {each["event"] for each in events}
        assert {each["process"] for each in events} == {command}
