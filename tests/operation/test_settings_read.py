"""Each setting is read by a process: one that nothing reads has no effect, and says nothing."""

import asyncio
import io
from pathlib import Path
from types import MethodType
from typing import Any, Final

import pytest
from pydantic import BaseModel

from webhook.cli.main import main
from webhook.settings import (
    Dashboard,
    Installation,
    Listen,
    Repair,
    Scheduling,
    Serving,
    Settings,
    Tls,
    known,
)
from webhook.wiring import controller, dashboard, serve

OF_COMMANDS: Final = {"file", "state"}
"""The command reads these before there is a process: they name its files."""


class Recorded:
    """Settings, or a section of them, that note what is read of them."""

    def __init__(self, model: BaseModel, read: set[str], section: str = "") -> None:
        self._model = model
        self._read = read
        self._section = section

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the setting is
        found = getattr(self._model, name)
        if isinstance(found, BaseModel):
            return Recorded(found, self._read, f"{self._section}{name}.")
        if isinstance(found, MethodType):
            return MethodType(found.__func__, self)
        self._read.add(f"{self._section}{name}")
        return found


@pytest.mark.parametrize("name", sorted({*known()} - OF_COMMANDS))
def test_every_setting_is_read(name: str, read: set[str]) -> None:
    assert name in read, "remove it, or read it"


@pytest.fixture(name="read", scope="module")
def _read(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The settings that three processes read, from their start to their drain."""
    folder = tmp_path_factory.mktemp("certificates")
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    files = Tls(certificate=folder / "tls.crt", key=folder / "tls.key")
    read: set[str] = set()
    for tls in (files, Tls(source="self-signed")):
        settings = Settings(
            tls=tls,
            installation=Installation(namespace="ray-webhook"),
            listen=Listen(host="127.0.0.1", admin_port=0),
            serving=Serving(port=0),
            dashboard=Dashboard(port=0),
            kubeconfig=Path("of-no-cluster"),
            scheduling=Scheduling(publish=True),
            repair=Repair(enabled=True),
        )
        recorded: Any = Recorded(settings, read)
        for process in (serve, controller, dashboard):
            asyncio.run(process.build(recorded, io.BytesIO()).drain())
    return read
