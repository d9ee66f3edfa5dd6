"""A short run of each attack: good clients and probes are answered, and memory is bounded."""

import sys
from collections.abc import Iterator
from subprocess import run

import pytest

from tests.conftest import EXAMPLES
from tests.harness.server import Running, serving
from tests.lab.hostile.attacks import ATTACKS
from tests.lab.hostile.beside import STATES, beside

SECONDS = "1"
PEAK_MIB = 320
"""The attacks share a server, whose memory stays at the peak of `many-bodies`."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of its own: others should not see what is done to it."""
    with serving(tmp_path_factory.mktemp("attacked"), [EXAMPLES, *STATES]) as running:
        yield running


@pytest.mark.parametrize("name", ATTACKS)
def test_beside_an_attack_all_are_answered_and_memory_is_bounded(
    attacked: Running, name: str
) -> None:
    with beside(attacked) as seen:
        command = [
            sys.executable, "-m", "tests.lab.hostile.attacks", name, attacked.url, attacked.admin,
            SECONDS,
        ]  # fmt: skip
        attacker = run(command, capture_output=True, text=True, check=False, timeout=180)
    assert attacker.returncode == 0, attacker.stderr
    assert [record.lost for record in seen.records] == [[], [], []]
    assert all(record.took for record in seen.records)
    assert seen.peak < PEAK_MIB
