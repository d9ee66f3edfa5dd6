"""Each scenario gives the same pods through `ray-webhook preview` and over HTTPS, equal to its
want.yaml.

A scenario is a directory: input.yaml contains RayClusters or pods to create, state.yaml existing
objects, want.yaml one document for each pod in order: the admitted pod, or the fields for which it
is refused. `make generate` writes want.yaml.
"""

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

import pytest
import yaml

from tests.harness.apiserver import ApiServer, Object
from tests.scenarios.admitted import SCENARIOS, admission, admitted, created, state_of, text_of
from webhook.cli.main import main


def wanted(scenario: Path) -> list[Object]:
    text = (scenario / "want.yaml").read_text()
    return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with admission() as server:
        yield server


def assert_wanted(scenario: Path, documents: Sequence[Object], want: Sequence[Object]) -> None:
    names = f"{scenario.name}/want.yaml", "admitted"
    before, after = (text_of(each).splitlines() for each in (want, documents))
    difference = "\n".join(unified_diff(before, after, *names, lineterm=""))
    assert not difference, f"`make generate` writes want.yaml:\n{difference}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_preview_shows_the_admitted_pods(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    want = wanted(scenario)
    refused = [document["refused"] for document in want if "refused" in document]
    states = [word for path in state_of(scenario) for word in ("--state", str(path))]
    code = main(["preview", "-f", str(scenario / "input.yaml"), *states, "-o", "yaml"])
    out, err = capsys.readouterr()
    if "validate denies it" in err:  # a denied RayCluster has no pods
        assert (code, out, bool(refused)) == (1, "", True)
        return
    pods = [document for document in want if "refused" not in document]
    assert_wanted(scenario, [*yaml.safe_load_all(out)], pods)
    assert code == (1 if refused else 0)
    lines = [line for line in err.splitlines() if ": warning: " not in line]
    reasons = [*dict.fromkeys(map(tuple, refused))]  # once for the pods of a group
    assert len(lines) == len(reasons)
    for line, fields in zip(lines, reasons, strict=True):
        assert all(f"{field}: " in line for field in fields), line


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_https_gives_the_same_pods(scenario: Path, api: ApiServer) -> None:
    assert_wanted(scenario, admitted(scenario, api), wanted(scenario))


def test_every_scenario_has_a_document_for_each_pod() -> None:
    assert len(SCENARIOS) == 15
    for scenario in SCENARIOS:
        assert len(wanted(scenario)) == len(created(scenario))
