"""Fixtures that run a command as the program does."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.harness.running import At, Ended, Run, Write
from tests.harness.scenes import Scene
from tests.harness.served import Server, serving
from webhook.cli.main import main


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one authority in place of all of the machine, whose file takes 20 ms to read for each
    connection, and ignore its proxies and colours.
    """
    folder = tmp_path_factory.mktemp("authority")
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(folder / "ca.crt"))
        patch.setenv("no_proxy", "*")
        patch.delenv("FORCE_COLOR", raising=False)
        yield


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command."""

    def call(*arguments: object) -> Ended:
        capfd.readouterr()
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as end:  # of argparse
            status = int(end.code or 0)
        return Ended(status, *capfd.readouterr())

    return call


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file."""

    def call(*content: object, name: str = "given.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content[0] if isinstance(content[0], str) else yaml.safe_dump_all(content)
        path.write_text(text, encoding="utf-8")
        return path

    return call


@pytest.fixture
def at(tmp_path: Path, run: Run) -> At:
    """Run a command on a scene."""

    def call(
        scene: Scene, *arguments: object, change: Callable[[Server], object] | None = None
    ) -> Ended:
        with serving(scene, tmp_path) as (server, kubeconfig):
            if change is not None:
                change(server)
            return run(*arguments, "--kubeconfig", kubeconfig)

    return call
