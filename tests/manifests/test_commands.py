"""Every command in a block of a page runs: here, in another test, or where its row says."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT
from tests.manifests.render import CHART, KUBE_VERSION, REGISTRY, kustomize
from tests.manifests.render import run as program
from tests.pages.blocks import COMMANDS, Command
from webhook import __version__
from webhook.cli.main import main

DOCKER: Final = "needs docker"
GOOGLE: Final = "needs a project of Google Cloud"
ELSEWHERE: Final = {
    "make ": "tests/pages/test_readme.py",
    ".venv/bin/ray-webhook preview": "tests/pages/test_readme.py",
    ".venv/bin/ray-webhook validate": "tests/pages/test_readme.py",
    ".venv/bin/ray-webhook check --wait": "tests/e2e/test_install.py",
    "ray-webhook check": "tests/e2e/test_install.py",
    "ray-webhook status -A": "tests/e2e/test_status.py",
    "ray-webhook explain pod NAME": "tests/e2e/test_status.py",
    "ray-webhook dashboard -A": "tests/e2e/dashboard_process.py",
    "ray-webhook settings check": "tests/webhook/config/test_settings.py",
    "ray-webhook validate manifests/": "tests/release/test_action.py",
    "helm template RELEASE": "tests/webhook/cli/test_validate.py",
    "kubectl kustomize OVERLAY": "tests/webhook/cli/test_validate.py",
    "helm rollback": "tests/e2e/test_fail_closed.py",
    "kubectl -n ray-webhook logs": "tests/e2e/test_helm_test.py",
    "helm uninstall": "tests/e2e/test_fail_closed.py",
    "kubectl label namespace": "tests/e2e/test_fail_closed.py",
    "kubectl get pods -A": "tests/e2e/test_migration.py",
    "kubectl delete mutatingwebhookconfiguration": "tests/e2e/test_install.py",
    "kubectl -n ray-webhook patch secret": "tests/e2e/test_install.py",
    "kubectl -n ray-webhook delete secret": "tests/e2e/test_cert_manager.py",
    "kubectl -n ray-webhook wait": "tests/e2e/test_cert_manager.py",
    "cmctl renew": "tests/e2e/cert_manager.py",
    "python3 -m venv": "tests/e2e/test_tutorial.py",
    "pip install ./dist": "tests/release/test_build.py",
    "docker ": DOCKER,
    "gcloud ": GOOGLE,
}
"""By the start of a command: the file that runs it or what it does, or what it needs."""

HELM: Final = [each for each in COMMANDS if each.text.startswith(("helm install", "helm upgrade"))]
KUSTOMIZED: Final = [each for each in COMMANDS if re.match(r"kubectl (apply|delete) -k", each.text)]
EDITED: Final = [each for each in COMMANDS if each.text.startswith("(cd manifests && kustomize")]
WITHOUT_CLUSTER: Final = [
    each
    for each in COMMANDS
    if re.match(r"ray-webhook (preview|validate examples|explain (?!pod))", each.text)
]


def test_every_command_is_run_here_or_has_a_row() -> None:
    here = {*HELM, *KUSTOMIZED, *EDITED, *WITHOUT_CLUSTER}
    others = [each for each in COMMANDS if each not in here]
    assert [each for each in others if not each.text.startswith(tuple(ELSEWHERE))] == []
    assert min(map(len, (HELM, KUSTOMIZED, WITHOUT_CLUSTER))) > 1
    assert EDITED


@pytest.mark.parametrize("start", ELSEWHERE)
def test_every_row_is_of_a_command_and_names_a_file_that_exists(start: str) -> None:
    assert any(each.text.startswith(start) for each in COMMANDS)
    where = ELSEWHERE[start]
    assert where in (DOCKER, GOOGLE) or (ROOT / where).is_file()


@pytest.mark.parametrize("command", WITHOUT_CLUSTER, ids=lambda each: each.text)
def test_a_command_that_needs_no_cluster_succeeds(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(command.words[1:]) == 0
    assert capsys.readouterr().out


@pytest.mark.manifests
@pytest.mark.parametrize("command", HELM, ids=lambda each: each.text)
def test_the_chart_takes_the_values_of_a_command(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects are rendered: that Helm installs and upgrades them is a story."""
    _, action, release, chart, *flags = command.words
    assert chart in ("manifests/chart", f"ray-webhook-{__version__}.tgz")
    of_action = {
        "install": {"--create-namespace"},
        "upgrade": {"--reset-then-reuse-values", "--reuse-values"},
    }
    flags = [flag for flag in flags if flag not in of_action[action]]
    if action == "upgrade":
        flags += ["--set", f"image.registry={REGISTRY}"]
    monkeypatch.chdir(tmp_path)
    Path("ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    done = program("helm", "template", release, str(CHART), "--kube-version", KUBE_VERSION, *flags)
    assert "kind: Deployment" in done.stdout


@pytest.mark.manifests
@pytest.mark.parametrize("command", KUSTOMIZED, ids=lambda each: each.text)
def test_kustomize_builds_what_a_command_applies(command: Command) -> None:
    (folder,) = (word for word in command.words if (ROOT / word / "kustomization.yaml").exists())
    assert kustomize(folder)


@pytest.mark.manifests
@pytest.mark.parametrize("command", EDITED, ids=lambda each: each.text)
def test_the_image_of_the_kustomization_can_be_edited(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kustomization.yaml", "install.yaml"):
        (tmp_path / name).write_bytes((ROOT / "manifests" / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    program("kustomize", *shlex.split(command.text.strip("()").partition("kustomize ")[2]))
    assert "image: REGISTRY/ray-webhook:" in program("kustomize", "build", ".").stdout
