"""Checks of the Dockerfile that need no build."""

import re

import pytest

from tests.manifests.render import ROOT, container_of, installation, pod_of
from tests.release.image import stages

BEFORE, BUILD, RESULT = stages()


def test_both_stages_have_the_same_base_pinned_by_its_digest() -> None:
    assert BUILD.base == RESULT.base
    assert re.fullmatch(r"python:3\.13-slim-[a-z]+@\$\{BASE_DIGEST\}", BUILD.base)
    assert BEFORE.arguments("ARG") == ["BASE_DIGEST"], "without a default, so that it is demanded"


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
    container, user = container_of(objects), pod_of(objects)["securityContext"]
    assert RESULT.arguments("USER") == [f"{user['runAsUser']}:{user['runAsGroup']}"]
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
