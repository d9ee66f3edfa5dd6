"""The installation pages name existing files, and the webhook completes their samples."""

import re

import pytest
import yaml

from tests import ROOT
from webhook.api import names
from webhook.cli.main import main

PAGES = ("docs/install.md", "docs/platforms.md", "manifests/README.md", "certs/README.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_path_in_a_page_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = set(re.findall(r"(?:-k|-f) ((?:manifests|certs)/[\w./-]+)", text)) | set(
        re.findall(r"`(manifests/[\w./-]+)`", text)
    )
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_in_a_page_is_a_setting(page: str) -> None:
    settings = (ROOT / "docs" / "settings.md").read_text().lower()
    for variable in re.findall(r"RAY_WEBHOOK_(\w+)", (ROOT / page).read_text()):
        setting = variable.replace("__", ".").replace("_", "").lower()
        assert f"`{setting}`" in settings or f"`ray_webhook_{setting}`" in settings


def test_the_sample_cluster_receives_identities_and_tpu_variables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["preview", "-f", str(ROOT / "manifests" / "samples" / "tpu-slice.yaml")]) == 0
    shown = capsys.readouterr().out
    assert names.LABEL_HOST_INDEX in shown
    assert names.TPU_WORKER_HOSTNAMES in shown


def test_the_sample_namespace_is_one_that_is_left_alone() -> None:
    (namespace,) = yaml.safe_load_all(
        (ROOT / "manifests" / "samples" / "ignored-namespace.yaml").read_text()
    )
    assert namespace["metadata"]["labels"] == {names.LABEL_IGNORE: "true"}
