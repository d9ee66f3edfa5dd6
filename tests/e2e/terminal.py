"""Commands of ray-webhook, as an administrator with a terminal runs them."""

import json
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper

from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane
from webhook.cli.main import main


def run_command(plane: ControlPlane, *words: str) -> tuple[int, str]:
    """Return the exit code and the output of a command."""
    with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")) as out:
        code = main([*words, "--kubeconfig", str(plane.admin_kubeconfig)])
    out.seek(0)
    return code, out.read()


def read_status(plane: ControlPlane, namespace: str) -> tuple[int, Json]:
    """Return the exit code and the report of `ray-webhook status` of a namespace."""
    code, text = run_command(plane, "status", "-n", namespace, "-o", "json")
    return code, json.loads(text)


def check(plane: ControlPlane) -> None:
    """Run `ray-webhook check`. Fails with what it prints."""
    code, text = run_command(plane, "check", "--wait", "1m")
    assert code == 0, text
