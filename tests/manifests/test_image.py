"""Checks of the Dockerfile that need no build."""

import re

import pytest
import yaml

from tests import ROOT
from tests.manifests.render import CHART, container_of, installation, pod_of
from tests.release.image import base_image, stages
from webhook import __version__

BEFORE, BUILD, RESULT = stages()


def test_both_stages_have_the_same_base_with_a_default() -> None:
    assert BUILD.base == RESULT.base == "${BASE}"
    assert re.fullmatch(r"python:3\.13-slim-[a-z]+", base_image())
    assert BEFORE.arguments("ARG") == [f"BASE={base_image()}"]


def test_a_release_passes_every_argument_and_pushes_the_tag_that_the_chart_pulls() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    (step,) = (
        step["with"]
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if "build-push-action" in step.get("uses", "")
    )
    passed = dict(line.split("=", 1) for line in step["build-args"].splitlines())
    declared = [*BEFORE.arguments("ARG"), *BUILD.arguments("ARG"), *RESULT.arguments("ARG")]
    assert passed.keys() == {argument.partition("=")[0] for argument in declared}
    assert passed["BASE"] == "${{ steps.base.outputs.base }}", "with its digest"
    assert step["tags"].endswith("/ray-webhook:${{ steps.base.outputs.version }}")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__, "the chart's default tag"


def test_the_result_has_no_build_tools() -> None:
    done = " ".join(RESULT.arguments("RUN"))
    assert "install" not in done
    assert "/usr/local/bin/pip*" in done
    assert RESULT.arguments("COPY") == ["--from=build /opt/ray-webhook /opt/ray-webhook"]
    assert "--without-pip" in " ".join(BUILD.arguments("RUN"))


def test_the_build_asks_the_index_once_for_wheels_whose_hashes_are_pinned() -> None:
    (commands,) = BUILD.arguments("RUN")
    first, then, *rest = (command.strip() for command in commands.split("&&"))
    assert first.startswith("pip download --require-hashes --no-deps --only-binary :all: ")
    assert first.endswith("--dest /wheels --requirement constraints.txt")
    assert then == "export PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels"
    assert len([command for command in rest if command.startswith("pip ")]) == 2


def test_times_in_the_result_do_not_depend_on_when_it_was_built() -> None:
    (commands,) = BUILD.arguments("RUN")
    assert "SOURCE_DATE_EPOCH=0" in BUILD.arguments("ARG")
    assert "--no-compile" in commands
    assert "--invalidation-mode unchecked-hash" in commands
    assert "touch --no-dereference --date=@$SOURCE_DATE_EPOCH" in commands


@pytest.mark.manifests
@pytest.mark.parametrize("mode", ["cert-manager", "self-signed"])
def test_image_and_deployment_agree(mode: str) -> None:
    objects = installation(mode)
    container = container_of(objects)
    (user,) = RESULT.arguments("USER")
    assert re.fullmatch("[1-9][0-9]*:[1-9][0-9]*", user), "runAsNonRoot reads numbers alone"
    assert "runAsUser" not in pod_of(objects)["securityContext"]
    assert RESULT.arguments("EXPOSE") == [
        " ".join(str(port["containerPort"]) for port in container["ports"])
    ]
    assert RESULT.arguments("ENTRYPOINT") == ['["ray-webhook"]']
    assert RESULT.arguments("CMD") == [str(container["args"]).replace("'", '"')]


def test_what_the_build_copies_exists_and_is_let_in() -> None:
    let_in = (ROOT / ".dockerignore").read_text()
    for text in BUILD.arguments("COPY"):
        *sources, _ = text.split()
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in let_in
