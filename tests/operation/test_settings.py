"""Settings: their sources, precedence, and messages about invalid values."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operation.settings_page import PAGE, page
from webhook.api.failures import InputError
from webhook.cli.main import main
from webhook.config.configuration import API_VERSION, known
from webhook.config.sources import read_settings, variable


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.operation.settings_page`"


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, node in known().items() if not node.get("description")] == []


def test_flags_stand_above_the_environment_above_the_file_above_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "serving: {port: 1, drainSeconds: 1}\nlisten: {adminPort: 1}")
    monkeypatch.setenv("RAY_WEBHOOK_SERVING__PORT", "2")
    monkeypatch.setenv("RAY_WEBHOOK_LISTEN__ADMIN_PORT", "2")
    settings = read_settings(["--config", str(file), "--serving.port", "3"])
    assert settings.serving.port == 3
    assert settings.listen.admin_port == 2
    assert settings.serving.drain_seconds == 1
    assert settings.listen.host == "0.0.0.0"  # noqa: S104 - only compared


@pytest.mark.parametrize("way", ["flag", "flag with =", "variable"])
def test_the_file_is_named_by_a_flag_or_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = written(tmp_path, "log: {admissions: denied}")
    if way == "variable":
        monkeypatch.setenv("RAY_WEBHOOK_CONFIG", str(file))
    flags = {"flag": ["--config", str(file)], "flag with =": [f"--config={file}"], "variable": []}[
        way
    ]
    assert read_settings(flags).log.admissions == "denied"


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        (
            {"RAY_WEBHOOK_LOG__ADMISSIONS": "some"},
            r"setting log\.admissions is 'some', and has to be one of all, denied",
        ),
        (
            {"RAY_WEBHOOK_SERVING__PORT": "70000"},
            r"setting serving\.port is '70000', and has to be a whole number from 0 to 65535",
        ),
        (
            {"RAY_WEBHOOK_SERVING__PROT": "1"},
            r"RAY_WEBHOOK_SERVING__PROT \(did you mean RAY_WEBHOOK_SERVING__PORT\?\)",
        ),
        (
            {"RAY_WEBHOOK_LOGS": "1"},
            (
                r"unknown environment variables RAY_WEBHOOK_LOGS.*; known are "
                r".*RAY_WEBHOOK_LOG__ADMISSIONS"
            ),
        ),
        ({"RAY_WEBHOOK_X": "1"}, r"unknown environment variables RAY_WEBHOOK_X; known are "),
        ({"RAY_WEBHOOK_REPLICAS": "1"}, r"variables RAY_WEBHOOK_REPLICAS; known are "),
        ({"RAY_WEBHOOK_PORT_443_TCP": "x"}, "enableServiceLinks: false"),
        ({"RAY_WEBHOOK_TLS__CLIENT_NAMES": '["a"]'}, "setting tls: .*clientNames needs clientCa"),
        (
            {"RAY_WEBHOOK_CONFIG": "/not/there"},
            "/not/there: No such file or directory: give the path of a file",
        ),
        ({"RAY_WEBHOOK_CONFIG": "/"}, "/: Is a directory: give the path"),
        (
            {"RAY_WEBHOOK_LISTEN__ADMIN_PORT": "10250"},
            "settings serving.port and listen.adminPort are both 10250: set different ports",
        ),
        (
            {"RAY_WEBHOOK_INSTALLATION__COMPONENTS": "events,gangs"},
            r"setting installation\.components\.1 is 'gangs', and has to be one of events, pod-gr",
        ),
    ],
)
def test_a_wrong_variable_stops_the_start_with_its_name_and_what_is_allowed(
    variables: dict[str, str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["serve"]) == 2
    assert re.search(complaint, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("serving: {port: x}", r"setting serving\.port is 'x', and has to be a whole number"),
        (
            "surving: {}",
            (
                r"setting surving does not exist \(did you mean serving\?\); known are "
                r"installation, listen, serving, "
                r".*standalone"
            ),
        ),
        ("serving: {drainSecond: 1}", r"did you mean serving\.drainSeconds\?"),
        ("serving:", "setting serving is empty, and has to be a map"),
        ("serving.port: 1", r"is one key, and has to be in a map: serving: {port: \.\.\.}"),
        ('"": 1', 'setting "" does not exist; known are installation'),
        ('serving: {"": 1}', r'setting serving\."" does not exist; known are serving\.port'),
        ('devices: {"": [a/b]}', "setting devices: '' is not a name of a device"),
        ('profiles: {"": {A: b}}', "setting profiles: '' is not a name of a profile"),
        ('profiles: {a: {"": b}}', "setting profiles: '' of profile a: no variable"),
        ("installation: {name: Ray_Webhook}", r"setting installation\.name: 'Ray_Webhook' is no"),
        ('installation: {name: ""}', r"setting installation\.name: '' is no name"),
        ("installation: {namespace: a.b}", r"setting installation\.namespace: 'a\.b' is no name"),
        ("listen: {host: 999.1.1.1}", r"setting listen\.host: '999\.1\.1\.1' is neither"),
        ("listen: {host: no where}", r"setting listen\.host: 'no where' is neither an IP"),
        ('dashboard: {host: ""}', r"setting dashboard\.host: '' is neither an IP address"),
        ("serving: [", r"settings\.yaml:\d+: not YAML"),
        (
            "log: {admissions: all}\nlog: {admissions: denied}",
            "the key 'log' stands on line 3 already",
        ),
        ("---\nlog: {}", "has 2 documents"),
        (
            "tls: {clientName: [a]}",
            r"setting tls\.clientName does .*did you mean tls\.clientNames\?",
        ),
    ],
)
def test_a_wrong_file_stops_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_settings(["--config", str(written(tmp_path, text))])


@pytest.mark.parametrize(
    "text",
    [
        "installation: {name: gate, namespace: team-a, components: []}",
        *(f'listen: {{host: "{host}"}}' for host in ("::1", "10.0.0.1", "localhost", "Gate.lan")),
        "listen: {adminPort: 0}\nserving: {port: 0}",
    ],
)
def test_names_addresses_and_ports_can_be_used(tmp_path: Path, text: str) -> None:
    assert read_settings(["--config", str(written(tmp_path, text))])


def test_a_process_that_does_not_answer_reviews_may_have_their_port() -> None:
    assert read_settings(["--port", "10250"], "controller").listen.admin_port == 10250


def test_there_are_at_most_35_settings() -> None:
    assert len(known()) <= 35


def test_an_unknown_flag_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings(["--serving.prot", "1"])
    assert end.value.code == 2
    assert "--serving.prot" in capsys.readouterr().err


def test_a_certificate_that_is_not_there_stops_the_start_with_its_path() -> None:
    command = [
        sys.executable,
        "-m",
        "webhook.cli.main",
        "serve",
        "--standalone",
        "--tls.cert-dir",
        "/not/there",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 2
    assert "/not/there/tls.crt: No such file" in ended.stderr


def test_a_variable_is_the_name_in_capitals() -> None:
    assert variable("serving.drainSeconds") == "RAY_WEBHOOK_SERVING__DRAIN_SECONDS"


def written(directory: Path, text: str) -> Path:
    path = directory / "settings.yaml"
    path.write_text(f"apiVersion: {API_VERSION}\nkind: Configuration\n{text}\n")
    return path


@pytest.mark.parametrize(
    "head",
    [
        "",
        "apiVersion: v1\nkind: Configuration\n",
        "apiVersion: config.ray-webhook.dev/v1alpha1\nkind: Other\n",
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_lines_to_write(
    tmp_path: Path, head: str
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"{head}log: {{admissions: denied}}")
    with pytest.raises(
        InputError,
        match=f"the lines `apiVersion: {re.escape(API_VERSION)}` and `kind: Configuration`",
    ):
        read_settings(["--config", str(file)])


@pytest.mark.parametrize("way", ["json", "plain", "flags"])
def test_lists_and_maps_are_written_as_people_write_them(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "json":
        monkeypatch.setenv("RAY_WEBHOOK_NAMESPACES", '["a", "b"]')
        monkeypatch.setenv(
            "RAY_WEBHOOK_VALIDATION__LEVELS",
            '{"tpu-topology-mismatch": "warn", "group-name-duplicate": "off"}',
        )
        monkeypatch.setenv("RAY_WEBHOOK_VALIDATION__GATES", '{"RayClusterMTLS": true}')
    if way == "plain":
        monkeypatch.setenv("RAY_WEBHOOK_NAMESPACES", "a, b")
        monkeypatch.setenv(
            "RAY_WEBHOOK_VALIDATION__LEVELS", "tpu-topology-mismatch=warn,group-name-duplicate=off"
        )
        monkeypatch.setenv("RAY_WEBHOOK_VALIDATION__GATES", "RayClusterMTLS=true")
    flags = [
        "--namespaces=a,b",
        "--validation.levels=tpu-topology-mismatch=warn,group-name-duplicate=off",
    ]
    settings = read_settings(
        [*flags, "--validation.gates=RayClusterMTLS=true"] if way == "flags" else []
    )
    assert settings.namespaces == ["a", "b"]
    assert settings.validation.levels == {
        "tpu-topology-mismatch": "warn",
        "group-name-duplicate": "off",
    }
    assert settings.validation.gates == {"RayClusterMTLS": True}


@pytest.mark.parametrize("written_as", ["off", '"off"', "false"])
def test_off_without_quotes_is_off_and_not_a_boolean(tmp_path: Path, written_as: str) -> None:
    text = (
        f"validation: {{levels: {{tpu-topology-mismatch: {written_as}}}}}\n"
        f"resize: {{enforcementAction: {written_as}}}"
    )
    settings = read_settings(["--config", str(written(tmp_path, text))])
    assert settings.validation.levels == {"tpu-topology-mismatch": "off"}
    assert settings.resize.enforcement_action == "off"


@pytest.mark.parametrize(
    ("text", "line", "tag"),
    [
        ("log: {admissions: !secret denied}", 3, "!secret"),
        ("log: !x\n  admissions: denied", 3, "!x"),
        ("namespaces:\n- !!binary YQ==", 4, "tag:yaml.org,2002:binary"),
        ("!x log: {}", 3, "!x"),
    ],
)
def test_an_unknown_tag_is_no_setting(tmp_path: Path, text: str, line: int, tag: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=f":{line}: the tag {tag} is unknown: remove it"):
        read_settings(["--config", str(file)])


def test_a_tag_of_yaml_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "log: !!map {admissions: !!str denied}")
    assert read_settings(["--config", str(file)]).log.admissions == "denied"


def test_a_map_that_is_none_says_how_to_write_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_WEBHOOK_VALIDATION__LEVELS", "warn")
    with pytest.raises(
        InputError, match=r"validation\.levels: a map is written key=value,other=value"
    ):
        read_settings([])


def test_an_unknown_variable_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_WEBHOOK_NAMESPACE", "a")
    with pytest.raises(
        InputError, match=r"RAY_WEBHOOK_NAMESPACE \(did you mean RAY_WEBHOOK_NAMESPACES\?\)"
    ):
        read_settings([])


def test_settings_are_checked_before_they_are_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
