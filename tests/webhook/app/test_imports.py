"""A process imports only the modules that it uses: imports dominate its memory at rest."""

import os
import subprocess
import sys

import pytest

RUN = """
import sys
from webhook.cli.main import main
code = main(sys.argv[1:])
print(code, sorted({"kubernetes", "requests"} & sys.modules.keys()))
"""
LOADED = """
import sys
import webhook.app.serve
files = [each.__file__ for name, each in sys.modules.items() if name.split(".")[0] == "webhook"]
print(len(files), sum(len(open(file).readlines()) for file in files))
"""
COMMANDS = {"serve": ["--tls.source=self-signed", "--port=0"], "controller": []}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_kubernetes_package_is_not_imported_for_a_service_account(command: str) -> None:
    words = [command, *COMMANDS[command], "--listen.admin-port=0", "--installation.namespace=n"]
    environ = {**os.environ, "KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environ, capture_output=True, text=True,
        check=True, timeout=60)  # fmt: skip
    said = ended.stdout + ended.stderr
    assert "serviceaccount/token" in said, said
    assert ended.stdout.splitlines()[-1].endswith(" []"), said


def test_serve_loads_a_bounded_number_of_our_modules() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    modules, lines = map(int, loaded.stdout.split())
    assert modules <= 175
    assert lines <= 29_000
