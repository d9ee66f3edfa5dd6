"""Each scenario gives the same pods through `ray-webhook preview` and over HTTPS, equal to its
want.yaml.

A scenario is a directory: input.yaml contains RayClusters or pods to create, state.yaml existing
objects, want.yaml one document for each pod in order: the admitted pod, or the fields for which it
is refused.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import jsonpatch
import pytest
import yaml

from tests.apiserver import ApiServer, Object, pod_review
from tests.server import serving
from webhook.cli.files import read_manifests
from webhook.cli.main import main
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

STORIES = sorted(path.parent for path in Path(__file__).parent.glob("*/input.yaml"))


def wanted(story: Path) -> list[Object]:
    """Return what should become of each pod."""
    return [
        manifest for manifest in yaml.safe_load_all((story / "want.yaml").read_text()) if manifest
    ]


def state_of(story: Path) -> list[Path]:
    """Return the file of what is there already, where the story has one."""
    path = story / "state.yaml"
    return [path] if path.exists() else []


def created(story: Path) -> list[Object]:
    """Return the pods that KubeRay creates in the story, in order."""
    found: list[Object] = []
    for manifest in read_manifests([story / "input.yaml"]):
        found += (
            expand(manifest.document, as_cluster(manifest))
            if manifest.kind == "RayCluster"
            else [manifest.document]
        )
    return found


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver whose webhook knows the RayClusters of all stories, and the pods that are
    there already.
    """
    directory = tmp_path_factory.mktemp("scenarios")
    known = [path for story in STORIES for path in state_of(story)]
    clusters = [
        each
        for story in STORIES
        for each in read_manifests([story / "input.yaml"])
        if each.kind == "RayCluster"
    ]
    (directory / "clusters.yaml").write_text(
        yaml.safe_dump_all([cluster.document for cluster in clusters])
    )
    with (
        serving(directory, [*known, directory / "clusters.yaml"]) as server,
        ApiServer(server.url, server.authority) as played,
    ):
        yield played


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_command_tells_the_story(story: Path, capsys: pytest.CaptureFixture[str]) -> None:
    want = wanted(story)
    refused = [each["refused"] for each in want if "refused" in each]
    states = [word for path in state_of(story) for word in ("--state", str(path))]
    code = main(["preview", "-f", str(story / "input.yaml"), *states, "-o", "yaml"])
    out, err = capsys.readouterr()
    assert list(yaml.safe_load_all(out)) == [each for each in want if "refused" not in each]
    assert code == (1 if refused else 0)
    # The objects that validate would deny are named too
    lines = [line for line in err.splitlines() if "validate denies it" not in line]
    assert len(lines) == len(refused)
    for line, fields in zip(lines, refused, strict=True):
        assert all(f"{field}: " in line for field in fields), line


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_https_tells_the_same_story(story: Path, api: ApiServer) -> None:
    assert [become(api, pod, number) for number, pod in enumerate(created(story))] == wanted(story)


def become(api: ApiServer, pod: Object, number: int) -> Object:
    """Return what becomes of a pod over HTTPS, as want.yaml says it."""
    response = api.review(pod_review(pod, uid=f"pod-{number}"))
    if not response["allowed"]:
        status = response["status"]
        assert (status["code"], status["reason"], "patch" in response) == (422, "Invalid", False)
        return {"refused": [cause["field"] for cause in status["details"]["causes"]]}
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    patched: Object = jsonpatch.apply_patch(pod, patch)
    return patched


def test_the_stories_are_the_ones_that_we_know() -> None:
    assert len(STORIES) == 15
    for story in STORIES:
        assert all(isinstance(each, Manifest) for each in read_manifests(state_of(story)))
        assert len(wanted(story)) == len(created(story))
