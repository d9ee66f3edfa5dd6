"""Each setting is read by a process; an unread setting would silently have no effect."""

import asyncio
import io
from pathlib import Path
from types import MethodType
from typing import Any, Final, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from webhook.app import controller, serve
from webhook.cli.main import main
from webhook.config.configuration import (
    Component,
    Installation,
    Listen,
    Serving,
    Settings,
    Tls,
    known,
)
from webhook.config.sources import PROCESSES, settings_of

OF_COMMANDS: Final = {"state"}
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


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_has_flags_for_its_settings(process: str, read: dict[str, set[str]]) -> None:
    assert {*settings_of(process)} - OF_COMMANDS == read[process]


def test_every_setting_is_read_by_a_process() -> None:
    assert {*known()} == {name for process in PROCESSES for name in settings_of(process)}


@pytest.fixture(name="read", scope="module")
def _read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The settings that each process reads, from its start to its drain."""
    folder = tmp_path_factory.mktemp("certificates")
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    read: dict[str, set[str]] = {process: set() for process in PROCESSES}
    for tls in (Tls(cert_dir=folder), Tls(source="self-signed")):
        settings = Settings(
            tls=tls,
            installation=Installation(namespace="ray-webhook", components=[*get_args(Component)]),
            listen=Listen(host="127.0.0.1", admin_port=0),
            serving=Serving(port=0),
            kubeconfig=Path("of-no-cluster"),
        )
        for process in (serve, controller):
            name = process.__name__.rpartition(".")[2]
            recorded: Any = Recorded(settings, read[name])
            asyncio.run(process.build(recorded, io.BytesIO()).drain())
    return {name: {_spelt(each) for each in found} for name, found in read.items()}


def _spelt(name: str) -> str:
    return ".".join(map(to_camel, name.split(".")))
