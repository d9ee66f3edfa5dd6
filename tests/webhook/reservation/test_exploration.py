"""Every interleaving of two processes that assign identities in one group at once."""

import pytest

from tests.webhook.reservation import exploration
from tests.webhook.reservation.exploration import Interleaving, Scene, explore
from webhook.reservation import allocation

CURRENT = {
    "first replica": Scene(desired=2, created=2),
    "next replica": Scene(desired=3, complete=(0,), created=2),
}
"""Only pods that are created are received late."""
LATE = {
    "lost host": Scene(desired=3, complete=(0, 1), deleted=((1, 1),), created=2),
    "replica scaled away, then a host lost": Scene(
        desired=2, complete=(0, 1, 2), deleted=((1, 0), (1, 1), (2, 1)), created=1
    ),
}
"""Deletions, too, are received late."""


def _ends(scene: Scene) -> list[Interleaving]:
    ends = list(explore(scene))
    assert len(ends) > 5
    return ends


@pytest.fixture(params=[allocation.BLOCK, 1], ids=["one table", "a table for each replica"])
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "BLOCK", request.param)


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("scene", CURRENT.values(), ids=CURRENT)
def test_two_processes_fill_a_replica_before_another_is_opened(scene: Scene) -> None:
    for interleaving in _ends(scene):
        assert not any(interleaving.opened)
        interleaving.finish()
        assert not interleaving.incomplete


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("scene", LATE.values(), ids=LATE)
def test_late_deletions_leave_no_replica_incomplete(scene: Scene) -> None:
    """Beside a replica whose lost host no process has received, another may be opened."""
    ends = _ends(scene)
    assert max(sum(interleaving.opened) for interleaving in ends) <= 1
    for interleaving in ends:
        interleaving.finish()
        assert not interleaving.incomplete
        assert interleaving.replicas <= {*range(scene.desired), *scene.complete}


@pytest.mark.usefixtures("_block")
def test_exploration_finds_writes_that_are_unconditional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "CONDITIONAL", False)
    with pytest.raises(AssertionError):
        list(explore(CURRENT["first replica"]))
