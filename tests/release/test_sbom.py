"""The SBOM: what pip does not know is added, and the workflow of a release runs targets of make."""

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.release.sbom import completed
from webhook import __version__

DIGEST = "sha256:" + "a" * 64
DOCUMENT = {
    "metadata": {"component": {"name": "ray-webhook"}},
    "components": [{"name": "ray-webhook", "version": "0"}, {"name": "Jinja2", "version": "3.1"}],
}


def test_it_has_our_version_hashes_the_vendored_scripts_and_the_base(tmp_path: Path) -> None:
    (tmp_path / "jinja2-3.1-py3-none-any.whl").write_bytes(b"wheel")
    found = completed(DOCUMENT, tmp_path, DIGEST)
    assert found["metadata"]["component"]["version"] == __version__
    by_name = {each["name"]: each for each in found["components"]}
    assert by_name["ray-webhook"]["version"] == __version__
    (digest,) = by_name["Jinja2"]["hashes"]
    assert digest == {"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", by_name["htmx"]["version"])
    assert by_name["htmx"]["hashes"]
    assert by_name["python"]["version"].startswith(by_name["cpython"]["version"])
    assert by_name["python"]["hashes"][0]["content"] == "a" * 64


def test_a_package_without_its_wheel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no wheel of jinja2 3\.1"):
        completed(DOCUMENT, tmp_path)


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "workflows").iterdir()), ids=str)
def test_every_step_of_a_workflow_is_one_command(file: Path) -> None:
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    steps = [step for job in jobs for step in job["steps"]]
    assert [step["run"] for step in steps if "\n" in step.get("run", "").strip()] == []


def test_every_action_is_pinned_by_commit_and_names_its_version() -> None:
    """PyPI's action is the exception: it runs an image that is tagged by branch and release."""
    files = [ROOT / "action.yml", *(ROOT / ".github" / "workflows").iterdir()]
    used = re.findall(r"uses: (.+)", "\n".join(file.read_text() for file in files))
    pinned = [each for each in used if re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[0-9.]+", each)]
    assert sorted({*used} - {*pinned}) == ["pypa/gh-action-pypi-publish@release/v1"]
