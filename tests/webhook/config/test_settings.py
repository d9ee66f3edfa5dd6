"""Settings: their sources, precedence, and messages about invalid values; a process reads each."""

import asyncio
import io
import json
import re
from pathlib import Path
from types import MethodType
from typing import Any, Final, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from webhook.api.failures import InputError
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
from webhook.config.settings_file import API_VERSION
from webhook.config.sources import PROCESSES, read_settings, settings_of, variable


def test_flags_come_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "serving: {port: 1, drainSeconds: 1}\nlisten: {adminPort: 1}")
    monkeypatch.setenv("RAY_WEBHOOK_SERVING__PORT", "2")
    monkeypatch.setenv("RAY_WEBHOOK_LISTEN__ADMIN_PORT", "2")
    settings = read_settings(["--config", str(file), "--serving.port", "3"])
    assert settings.serving.port == 3
    assert settings.listen.admin_port == 2
    assert settings.serving.drain_seconds == 1
    assert settings.listen.host == ""


@pytest.mark.parametrize("way", ["flag", "flag with =", "variable"])
def test_the_file_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    file = written(tmp_path, "log: {admissions: denied}")
    if way == "variable":
        monkeypatch.setenv("RAY_WEBHOOK_CONFIG", str(file))
    flags = {"flag": ["--config", str(file)], "flag with =": [f"--config={file}"]}
    assert read_settings(flags.get(way, [])).log.admissions == "denied"


@pytest.mark.parametrize(("name", "value", "complaint"), [
    ("LOG__ADMISSIONS", "some",
     "setting log.admissions is 'some', and has to be one of all, denied"),
    ("SERVING__PORT", "70000",
     "setting serving.port is '70000', and has to be a whole number from 0 to 65535"),
    ("SERVING__DRAIN_SECONDS", "601", "and has to be a number from 0 to 600"),
    ("SERVING__PROT", "1",
     "variables RAY_WEBHOOK_SERVING__PROT (did you mean RAY_WEBHOOK_SERVING__PORT?); known are "),
    ("X", "1", "unknown environment variables RAY_WEBHOOK_X; known are RAY_WEBHOOK_AFFINITY"),
    ("PORT_443_TCP", "x", "enableServiceLinks: false"),
    ("TLS__CLIENT_NAMES", '["a"]', "setting tls: clientNames needs clientCa"),
    ("TLS__CLIENT_NAMES", "[", "setting tls.clientNames: not JSON: "),
    ("TLS__MIN_VERSION", "VersionTLS11",
     "setting tls.minVersion is 'VersionTLS11', and has to be one of VersionTLS12, VersionTLS13"),
    ("TLS__CIPHER_SUITES", "TLS_AES_128_GCM_SHA256",
     "setting tls.cipherSuites.0 is 'TLS_AES_128_GCM_SHA256', and has to be one of TLS_ECDHE_E"),
    ("VALIDATION__LEVELS", "warn",
     "setting validation.levels: a map is written key=value,other=value"),
    ("CONFIG", "/not/there", "/not/there: No such file or directory: give the path of a file"),
    ("CONFIG", "/", "/: Is a directory: give the path of a file with settings"),
    ("LISTEN__ADMIN_PORT", "10250",
     "settings serving.port and listen.adminPort are both 10250: set different ports"),
    ("INSTALLATION__COMPONENTS", "events,gangs",
     "setting installation.components.1 is 'gangs', and has to be one of events, pod-groups"),
])  # fmt: skip
def test_an_invalid_variable_stops_the_start_with_the_allowed_values(
    name: str,
    value: str,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"RAY_WEBHOOK_{name}", value)
    assert main(["serve"]) == 2
    assert complaint in capsys.readouterr().err


HEAD = f"apiVersion: {API_VERSION}\nkind: Configuration\n"
BEGIN = f"begin it with the lines `apiVersion: {API_VERSION}` and `kind: Configuration`"


@pytest.mark.parametrize(("text", "complaint"), [
    ("serving: {port: x}", "setting serving.port is 'x', and has to be a whole number"),
    ("surving: {}", "setting surving does not exist (did you mean serving?); known are install"),
    ("serving: {drainSecond: 1}", "did you mean serving.drainSeconds?"),
    ("tls: {clientName: [a]}", "setting tls.clientName does not exist (did you mean tls.clientNam"),
    ("serving:", "setting serving is empty, and has to be a map"),
    ("serving.port: 1", "is one key, and has to be in a map: serving: {port: ...}"),
    ('"": 1', 'setting "" does not exist; known are installation'),
    ('serving: {"": 1}', 'setting serving."" does not exist; known are serving.port'),
    ('devices: {"": [a/b]}', "setting devices: '' is not a name of a device"),
    ('profiles: {"": {A: b}}', "setting profiles: '' is not a name of a profile"),
    ('profiles: {a: {"": b}}', "setting profiles: '' of profile a: no variable"),
    ("installation: {name: Ray_Webhook}", "setting installation.name: 'Ray_Webhook' is no name"),
    ('installation: {name: ""}', "setting installation.name: '' is no name"),
    ("installation: {namespace: a.b}", "setting installation.namespace: 'a.b' is no name"),
    ("listen: {host: 999.1.1.1}", "setting listen.host: '999.1.1.1' is neither"),
    ("listen: {host: no where}", "setting listen.host: 'no where' is neither an IP"),
    ("tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}",
     "setting tls: cipherSuites are those of TLS 1.2, which minVersion VersionTLS13 excludes"),
    ("log: {admissions: !secret denied}", ":3: the tag !secret is unknown: remove it"),
    ("log: !x\n  admissions: denied", ":3: the tag !x is unknown"),
    ("namespaces:\n- !!binary YQ==", ":4: the tag tag:yaml.org,2002:binary is unknown"),
    ("!x log: {}", ":3: the tag !x is unknown"), ("serving: [", "settings.yaml:4: not YAML"),
    ("log: {}\nlog: {}", ":4: duplicate key 'log', first on line 3"),
    ("---\nlog: {}", f"settings.yaml: it has 2 documents, and has to have one: {BEGIN}"),
])  # fmt: skip
def test_an_invalid_file_stops_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)) as error:
        read_settings(["--config", str(written(tmp_path, text))])
    assert str(error.value).count("settings.yaml") <= 1


def test_a_flag_below_an_invalid_section_of_the_file_leaves_its_error(tmp_path: Path) -> None:
    file = written(tmp_path, "serving: 5")
    with pytest.raises(InputError, match="setting serving is 5, and has to be a map"):
        read_settings(["--config", str(file), "--serving.port", "80"])


@pytest.mark.parametrize("text", [
    "log: {}",
    "apiVersion: v1\nkind: Configuration\nlog: {}",
    HEAD.replace("kind: Configuration", "kind: Other"),
    "text",
])  # fmt: skip
def test_a_file_of_another_kind_is_refused_with_an_example(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(BEGIN)):
        read_settings(["--config", str(file)])


@pytest.mark.parametrize("text", [
    "installation: {name: gate, namespace: team-a, components: []}",
    *(f'listen: {{host: "{host}"}}' for host in ("::1", "10.0.0.1", "localhost", "Gate.lan")),
    "listen: {adminPort: 0}\nserving: {port: 0}",
])  # fmt: skip
def test_names_addresses_and_ports_can_be_used(tmp_path: Path, text: str) -> None:
    assert read_settings(["--config", str(written(tmp_path, text))])


def test_a_process_that_does_not_answer_reviews_may_have_their_port() -> None:
    assert read_settings(["--port", "10250"], "controller").listen.admin_port == 10250


def test_there_are_at_most_35_settings() -> None:
    assert len(known()) <= 35


def written(directory: Path, text: str) -> Path:
    path = directory / "settings.yaml"
    path.write_text(f"{HEAD}{text}\n")
    return path


LEVELS = {"tpu-topology-mismatch": "warn", "group-name-duplicate": "off"}
PLAIN = {
    "namespaces": "a, b",
    "validation.levels": "tpu-topology-mismatch=warn,group-name-duplicate=off",
    "validation.gates": "RayClusterMTLS=true",
}
JSON = {
    "namespaces": '["a", "b"]',
    "validation.levels": json.dumps(LEVELS),
    "validation.gates": '{"RayClusterMTLS": true}',
}


@pytest.mark.parametrize("values", [PLAIN, JSON])
@pytest.mark.parametrize("way", ["variables", "flags"])
def test_lists_and_maps_are_plain_or_json(
    monkeypatch: pytest.MonkeyPatch, way: str, values: dict[str, str]
) -> None:
    if way == "variables":
        for name, value in values.items():
            monkeypatch.setenv(variable(name), value)
    flags = [f"--{name}={value}" for name, value in values.items()]
    settings = read_settings(flags if way == "flags" else [])
    assert settings.namespaces == ["a", "b"]
    assert settings.validation.levels == LEVELS
    assert settings.validation.gates == {"RayClusterMTLS": True}


@pytest.mark.parametrize(("written_as", "word"), [
    ("off", "off"), ('"off"', "off"), ("false", "off"), ("on", "on"),
])  # fmt: skip
def test_on_and_off_without_quotes_are_words(tmp_path: Path, written_as: str, word: str) -> None:
    level = "off" if word == "on" else written_as
    text = (
        f"validation: {{levels: {{tpu-topology-mismatch: {level}}}}}\ntopology: {{zones: {word}}}"
    )
    settings = read_settings(["--config", str(written(tmp_path, text))])
    assert settings.validation.levels == {"tpu-topology-mismatch": "off"}
    assert settings.topology.zones == word


def test_a_tag_of_yaml_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "log: !!map {admissions: !!str denied}")
    assert read_settings(["--config", str(file)]).log.admissions == "denied"


def test_settings_can_be_checked_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = written(tmp_path, "log: {admissions: denied}")
    assert main(["settings", "check", str(good)]) == 0
    assert "can be used" in capsys.readouterr().out
    wrong = written(tmp_path, "log: {admission: denied}\nserving: {port: x}")
    assert main(["settings", "check", str(wrong)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "did you mean log.admissions?" in "".join(lines)
    for text, line in (("serving: [", ":4"), ("---\nlog: {}", "")):
        assert main(["settings", "check", str(written(tmp_path, text))]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"{tmp_path / 'settings.yaml'}{line}: ")
        assert error.count("settings.yaml") == 1


def test_the_schema_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "$ref" not in json.dumps(found)
    for name in known():
        node = found
        for word in name.split("."):
            node = node["properties"][word]
        assert node["description"]


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


@pytest.fixture(name="read")
def _read(tmp_path: Path) -> dict[str, set[str]]:
    """The settings that each process reads, from its start to its drain."""
    assert main(["certs", "issue", "--dir", str(tmp_path)]) == 0
    read: dict[str, set[str]] = {process: set() for process in PROCESSES}
    for tls in (Tls(cert_dir=tmp_path), Tls(source="self-signed")):
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
