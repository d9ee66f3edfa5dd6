"""Several processes answer, and fail one after the other: a short run of `make chaos`."""

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.lab.chaos import run

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("seed", [4])
def test_no_identity_is_held_twice_while_processes_and_the_control_plane_break(seed: int) -> None:
    with ControlPlane() as plane:
        assert run(plane, seed, 30, clusters=5, replicas=3) == ""
