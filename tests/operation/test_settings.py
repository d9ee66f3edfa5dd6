"""Settings: where they come from, which wins, and what is said of wrong ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operation.settings_page import PAGE, page
from webhook.cli.main import main
from webhook.settings import WrongSettingsError, known, read_settings, variable


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.operation.settings_page`"


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, field in known().items() if not field.description] == []


def test_flags_stand_above_the_environment_above_the_file_above_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "serving: {port: 1, admin_port: 1, drain_seconds: 1}")
    monkeypatch.setenv("RAY_WEBHOOK_SERVING__PORT", "2")
    monkeypatch.setenv("RAY_WEBHOOK_SERVING__ADMIN_PORT", "2")
    settings = read_settings(["--file", str(file), "--serving.port", "3"])
    assert settings.serving.port == 3
    assert settings.serving.admin_port == 2
    assert settings.serving.drain_seconds == 1
    assert settings.serving.host == "0.0.0.0"  # noqa: S104 - only compared


@pytest.mark.parametrize("way", ["flag", "flag with =", "variable"])
def test_the_file_is_named_by_a_flag_or_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    file = written(tmp_path, "log: {admissions: denied}")
    if way == "variable":
        monkeypatch.setenv("RAY_WEBHOOK_FILE", str(file))
    flags = {"flag": ["--file", str(file)], "flag with =": [f"--file={file}"], "variable": []}[way]
    assert read_settings(flags).log.admissions == "denied"


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"RAY_WEBHOOK_LOG__ADMISSIONS": "some"}, r"setting log\.admissions: .*'all' or 'denied' \(got 'some'\)"),
        ({"RAY_WEBHOOK_SERVING__PORT": "70000"}, r"setting serving\.port: .*less than or equal to 65535"),
        ({"RAY_WEBHOOK_SERVING__PROT": "1"}, r"setting serving\.prot: not permitted.*serving\.port"),
        ({"RAY_WEBHOOK_LOGS": "1"}, r"unknown environment variables RAY_WEBHOOK_LOGS; known are .*RAY_WEBHOOK_LOG__ADMISSIONS"),
        ({"RAY_WEBHOOK_PORT_443_TCP": "x"}, "enableServiceLinks: false"),
        ({"RAY_WEBHOOK_TLS__CLIENT_NAMES": '["a"]'}, "setting tls: .*client_names needs client_ca"),
        ({"RAY_WEBHOOK_FILE": "/not/there"}, "setting file: /not/there is not there"),
    ],
)
def test_a_wrong_variable_stops_the_start_with_its_name_and_what_is_allowed(
    variables: dict[str, str], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["serve"]) == 2
    assert re.search(complaint, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("serving: {port: x}", r"setting serving\.port: .*valid integer"),
        ("surving: {}", "setting surving: .*none of this name; known are .*standalone"),
        ("serving: [", "cannot be read"),
        ("tls: {self_signed: {secrets: a}}", r"setting tls\.self_signed\.secrets: .*tls\.self_signed\.secret"),
    ],
)
def test_a_wrong_file_stops_the_start(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(WrongSettingsError, match=complaint):
        read_settings(["--file", str(written(tmp_path, text))])


def test_an_unknown_flag_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read_settings(["--serving.prot", "1"])
    assert end.value.code == 2
    assert "--serving.prot" in capsys.readouterr().err


def test_a_certificate_that_is_not_there_stops_the_start_with_its_path() -> None:
    command = [sys.executable, "-m", "webhook.cli.main", "serve", "--standalone", "--tls.certificate", "/not/there.crt"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 2
    assert "/not/there.crt: No such file" in ended.stderr


def test_a_variable_is_the_name_in_capitals() -> None:
    assert variable("tls.self_signed.secret") == "RAY_WEBHOOK_TLS__SELF_SIGNED__SECRET"


def written(directory: Path, text: str) -> Path:
    """Return a file with this text."""
    path = directory / "settings.yaml"
    path.write_text(text)
    return path
