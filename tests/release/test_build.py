"""A release: one version everywhere, and the same bytes from the same sources."""

import re
import tarfile
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.manifests.render import run
from tests.release.build import (
    CHART,
    INSTALLED,
    build,
    manifests,
    notes,
    packed,
    problems,
    repository,
    wrong,
)
from tests.release.checksums import checksums, write_checksums
from webhook import __version__


def test_the_chart_is_of_the_version_of_the_package_which_has_one_place() -> None:
    assert [each for each in problems() if "Chart.yaml" in each] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"] == {"path": "webhook/__init__.py"}


def test_a_tag_without_its_section_in_the_changelog_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.release.build.__version__", "99.0.0")
    said = list(problems("v99.0.0"))
    assert any("CHANGELOG.md has no section 99.0.0" in each for each in said)
    assert any("Chart.yaml has version" in each for each in said)
    assert not any("CHANGELOG.md" in each for each in problems())


def test_a_tag_needs_its_version_a_registry_and_the_url_of_the_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("REGISTRY", raising=False)
    assert any("the tag is v99.0.0" in each for each in problems("v99.0.0"))
    said = list(problems(f"v{__version__}"))
    assert not any("tag" in each for each in said)
    assert any("REGISTRY is not set" in each for each in said)
    assert any("placeholder in project.urls" in each for each in said) == (
        "example.com" in repository()
    )
    assert not any("REGISTRY" in each for each in problems())


def test_the_url_of_the_repository_is_that_of_the_package_everywhere() -> None:
    url = repository()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["home"], chart["sources"]) == (url, [url])
    for path in (
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted(path for path in (ROOT / ".github").rglob("*") if path.is_file()),
        CHART / "values.yaml",
        ROOT / "certs" / "README.md",
    ):
        for other in re.findall(r"https://[\w./-]*/ray-webhook\b", path.read_text("utf-8")):
            assert other == url, f"{path} has {other}; pyproject.toml has {url}"


@pytest.mark.manifests
@pytest.mark.parametrize("kustomization", INSTALLED.values())
def test_the_image_of_the_manifests_is_in_the_given_registry(
    kustomization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", "registry.example.org/team")
    images = set(re.findall("image: (.+)", manifests(kustomization)))
    assert images == {f"registry.example.org/team/ray-webhook:{__version__}"}


def test_release_notes_are_the_section_of_the_version() -> None:
    changelog = (
        f"# C\n\n## Unreleased\n\n- a\n\n## {__version__}: 2026-12-01\n\n- b\n\n## 0.0.1\n\n- c\n"
    )
    assert notes(changelog) == "- b\n"


@pytest.mark.manifests
def test_two_builds_are_alike_and_what_they_should_be(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    one, other = (build(folder, 1_700_000_000) for folder in folders)
    assert checksums(one) == checksums(other)
    assert [file.name for file in one] == [
        "install-cert-manager.yaml", "install.yaml", f"ray-webhook-{__version__}.tgz",
        f"ray_webhook-{__version__}-py3-none-any.whl", f"ray_webhook-{__version__}.tar.gz",
        "rules.yaml",
    ]  # fmt: skip
    assert list(wrong(one[3])) == []
    with zipfile.ZipFile(one[3]) as wheel:
        meta = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
        text = wheel.read(meta).decode()
    assert "License-Expression: Apache-2.0" in text
    assert {"Provides-Extra: cluster", "Provides-Extra: serve"} <= set(text.splitlines())
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert f"{repository()}/blob/v{__version__}/docs/install.md#build-the-image" in targets
    assert f"{repository()}/raw/v{__version__}/docs/why-it-hangs.svg" in targets
    assert [each for each in targets if not each.startswith("https://")] == []


def test_the_checksums_cover_the_sbom_and_the_digest_of_the_image(tmp_path: Path) -> None:
    for name in ("ray-webhook.cdx.json", "NOTES.md"):
        (tmp_path / name).write_text(name)
    image = "registry/ray-webhook:0.1.0@sha256:ab"
    for _ in range(2):
        write_checksums(tmp_path, image)
        assert (tmp_path / "image.txt").read_text() == f"{image}\n"
        names = [line.split()[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()]
        assert names == ["image.txt", "ray-webhook.cdx.json"]
    release = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    commands = ["make sbom", "build-push-action@", "make push-chart", "make checksums"]
    assert sorted(commands, key=release.index) == commands
    assert release.index("make checksums") < release.index("gh release create")
    assert "-m tests.release.chart dist " in (ROOT / "tests" / "lab" / "lab.mk").read_text()


def test_a_wheel_that_lacks_something_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "ray_webhook-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tests/x.py", "")
    said = list(wrong(path))
    assert any("lacks webhook/py.typed" in each for each in said)
    assert any("has tests/x.py" in each for each in said)


@pytest.mark.manifests
def test_the_chart_holds_all_its_files_and_helm_can_read_it(tmp_path: Path) -> None:
    data = packed(CHART, 0)
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        held = {name.removeprefix("ray-webhook/") for name in archive.getnames()}
    files = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert held == {*files, "LICENSE"}
    chart = tmp_path / "chart.tgz"
    chart.write_bytes(data)
    shown = run("helm", "show", "chart", str(chart)).stdout
    assert f"version: {__version__}" in shown
