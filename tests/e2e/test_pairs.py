"""What stories stand on: the pairs of the test matrix with the features that each lacks, and the
ports and logs of programs. Needs no control plane.
"""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.e2e import build, needs
from tests.e2e.go import CannotBuildError
from tests.e2e.pin import replacements
from tests.e2e.process import accepts_connections, free_port, lines
from tests.e2e.versions import (
    KUBERAY_VARIABLE,
    KUBERNETES_VARIABLE,
    MATRIX,
    NEWEST,
    OLD,
    SOURCE_VARIABLE,
    UNPUBLISHED,
    Pair,
    chosen,
)

Choose = Callable[[Pair], None]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Choose:
    """Return a function that puts a pair into the environment."""
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv(SOURCE_VARIABLE, raising=False)

    def put(pair: Pair) -> None:
        monkeypatch.setenv(KUBERAY_VARIABLE, pair.kuberay)
        monkeypatch.setenv(KUBERNETES_VARIABLE, pair.kubernetes)

    return put


def write_sources(folder: Path) -> Path:
    """Write a Go module without a program, and return its folder."""
    sources = folder / "ray-operator"
    sources.mkdir()
    (sources / "go.mod").write_text(f"module {build.KUBERAY_MODULE}\n")
    (sources / "go.sum").touch()
    return sources


def test_the_newest_pair_runs_unless_another_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KUBERAY_VARIABLE, "")
    monkeypatch.delenv(KUBERNETES_VARIABLE, raising=False)
    assert chosen() == NEWEST
    monkeypatch.setenv(KUBERNETES_VARIABLE, "1.34.4")
    assert chosen() == Pair(NEWEST.kuberay, "1.34.4")


def test_every_story_runs_on_the_newest_pair() -> None:
    assert [need.lack for need in needs.ALL if not need.met(NEWEST)] == []


def test_the_continuous_pairs_have_both_identity_paths_and_the_gap_of_int32() -> None:
    for need in (needs.MULTI_HOST_INDEXING, needs.INT32):
        assert (need.met(NEWEST), need.met(OLD)) == (True, False)
    text = (ROOT / ".ci" / "run").read_text()
    assert f"stories {OLD.kuberay} {OLD.kubernetes}\n" in text


def test_every_pair_whose_module_is_published_is_tested_at_night() -> None:
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yaml").read_text())
    pairs = [Pair(**each) for each in nightly["jobs"]["e2e"]["strategy"]["matrix"]["include"]]
    assert [*pairs, UNPUBLISHED] == [*MATRIX]


@pytest.mark.parametrize("pair", MATRIX, ids=str)
def test_what_a_pair_needs_is_pinned(
    pair: Pair, choose: Choose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose(pair)
    if pair == UNPUBLISHED:
        monkeypatch.setenv(SOURCE_VARIABLE, str(write_sources(tmp_path)))
    names = build.required()
    assert "kuberay-operator" in names
    assert ("kube-scheduler" in names) == bool(pair.pod_groups)
    assert ({"kueue", build.PREVIOUS_KUBECTL} <= {*names}) == (pair == NEWEST)
    assert build.missing() == [*names, build.CRDS]
    assert all(build.BY_NAME[name].pins.is_dir() for name in names)


@pytest.mark.parametrize("pair", MATRIX[1:], ids=str)
def test_programs_of_other_versions_do_not_lie_where_those_of_the_newest_do(
    pair: Pair, choose: Choose
) -> None:
    shared = (
        "etcd", "kueue", build.PREVIOUS_KUBECTL, build.HELM, build.HELM_4, "kustomize",
    )  # fmt: skip
    choose(NEWEST)
    newest = {name: build.binary(name) for name in build.BY_NAME}
    choose(pair)
    for tool in build.TOOLS:
        same = tool.name in shared or pair.of(tool.module) == NEWEST.of(tool.module)
        assert (build.binary(tool.name) == newest[tool.name]) == same


def test_a_version_that_is_not_pinned_cannot_be_built(choose: Choose) -> None:
    choose(Pair(NEWEST.kuberay, "1.2.3"))
    with pytest.raises(CannotBuildError, match=r"1\.2\.3 is not there"):
        _ = build.BY_NAME["kubectl"].pins


def test_an_unpublished_kuberay_is_built_from_given_sources(
    choose: Choose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose(UNPUBLISHED)
    with pytest.raises(CannotBuildError, match=f"{SOURCE_VARIABLE} names no folder"):
        build.build()
    sources = write_sources(tmp_path)
    monkeypatch.setenv(SOURCE_VARIABLE, str(sources))
    with pytest.raises(CannotBuildError, match="has no CustomResourceDefinitions"):
        build.build()
    definition = sources / "config" / "crd" / "bases" / "ray.yaml"
    definition.parent.mkdir(parents=True)
    definition.write_bytes(b"kind: Ray")
    assert build.crd_sources() == [definition]


def test_a_pin_replaces_the_staging_modules_of_a_release_and_no_others() -> None:
    text = """\
require (
	k8s.io/api v0.0.0
	k8s.io/utils v0.0.0-20250604170112-4c0f3b243397
)
replace k8s.io/kms => k8s.io/kms v1.0.0
replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/cri-api => ./staging/src/k8s.io/cri-api
)
"""
    assert replacements(text, "1.34.4").splitlines()[1:] == [
        "replace (",
        "\tk8s.io/api => k8s.io/api v0.34.4",
        "\tk8s.io/cri-api => k8s.io/cri-api v0.34.4",
        ")",
    ]


def test_a_port_is_kept_for_the_program_that_receives_it() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # a program is started again on the port it had
        with socket.create_server(("127.0.0.1", port)):
            assert accepts_connections(port)
        assert not accepts_connections(port)


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes('{"a": "ä"}\n{"b": "ä'.encode()[:-1])
    assert lines(log) == ['{"a": "ä"}']
    log.write_text("")
    assert lines(log) == []
