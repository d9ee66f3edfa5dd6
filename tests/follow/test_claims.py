"""A claim on a calm day, and what is answered when Leases cannot be written."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.follow.agreement import LEASES, Model, Process, Store
from webhook.admission.errors import ClaimsUnavailable
from webhook.follow.errors import ApiError
from webhook.follow.leases import write_page
from webhook.groups.ledger import Page
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import Wanted
from webhook.kube import names

KEY = GroupKey("ns", "uid", "group-0")


class Calm(Model):
    """A world where everything happens at once, for as long as a claim needs it."""

    refuse: Callable[[], Any] | None = None

    def claim(self, process: Process, uid: str = "request") -> Seat:
        """Return the seat that a process gives. Raises what it raises."""
        task = self.loop.create_task(
            process.seats.claim(Wanted("ray", KEY, 2, 9, uid), lambda seat: seat, process.clock())
        )
        for _ in range(400):
            self.now += 0.01
            self.calm()
            if task.done():
                break
        seat = task.result()
        assert isinstance(seat, Seat)
        return seat

    def calm(self) -> None:
        """Let everything that is underway happen."""
        for process in self.processes:
            process.watch_pods(1 << 30)
            process.watch_leases(1 << 30)
        requests, self.requests = self.requests, []
        for request in requests:
            try:
                result = (self.refuse or request.carry_out)()
            except ApiError as error:
                result = error
            self._answer(request, result)
        self._settle()

    def wait(self, seconds: float) -> None:
        """Let time pass, calmly."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.6
            self.calm()


@pytest.fixture(name="world")
def _world() -> Any:  # noqa: ANN401 - a generator of one
    logging.disable(logging.CRITICAL)
    world = Calm(1, 2)
    world.wait(45)
    yield world
    world.close()
    logging.disable(logging.NOTSET)
    asyncio.set_event_loop(None)


def test_processes_give_one_seat_after_another(world: Calm) -> None:
    first, second = world.processes
    found = [
        world.claim(process, f"request-{number}")
        for number, process in enumerate([first, second, second, first])
    ]
    assert [(seat.replica, seat.host) for seat in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [
        found[0].name == found[1].name,
        found[2].name == found[3].name,
        found[0].name == found[2].name,
    ] == [True, True, False]


def test_how_long_the_api_server_takes_to_write_is_counted(world: Calm) -> None:
    counters = world.processes[0].claims.counters
    writes, seconds = counters.writes, counters.write_seconds
    world.claim(world.processes[0])
    assert counters.writes == writes + 1
    assert counters.write_seconds == pytest.approx(seconds + 0.01)


def test_a_seat_whose_pod_never_comes_is_given_again_after_a_minute(world: Calm) -> None:
    first, second = world.processes
    assert world.claim(first).host == 0
    assert world.claim(second).host == 1
    world.wait(70)
    assert (world.claim(second).replica, world.claim(first).host) == (0, 1)


def test_a_seat_is_given_again_after_a_minute_though_no_process_lives_for_one(world: Calm) -> None:
    assert world.claim(world.processes[0]).host == 0
    for turn in range(7):
        world.wait(10)
        world.restart(turn % 2)
    assert world.claim(world.processes[0]).host == 0


def test_nobody_claims_in_a_lease_that_is_new() -> None:
    world = Calm(1, 1)
    world.wait(10)
    with pytest.raises(ClaimsUnavailable, match="is new"):
        world.claim(world.processes[0])
    world.wait(40)
    assert world.claim(world.processes[0]).host == 0
    world.close()


def test_a_right_that_was_taken_away_refuses_and_what_is_missing_is_said(world: Calm) -> None:
    def forbid() -> Any:  # noqa: ANN401 - it raises
        raise ApiError("forbidden", "the API server answered 403: may not update leases")

    world.refuse = forbid
    with pytest.raises((ClaimsUnavailable, Exception), match="may not update leases"):
        world.claim(world.processes[0])
    world.refuse = None
    assert world.claim(world.processes[0]).host == 0


def test_a_failure_that_lasts_is_logged_once_and_so_is_its_end(
    world: Calm, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbid(*_arguments: object) -> None:
        raise ApiError("forbidden", "the API server answered 403: may not update leases")

    logging.disable(logging.NOTSET)
    caplog.set_level(logging.INFO, "webhook.follow")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "replace", forbid)
        for number in range(3):
            with pytest.raises(ClaimsUnavailable):
                world.claim(world.processes[0], f"request-{number}")
    world.claim(world.processes[0])
    said = [line for line in caplog.messages if "Lease" in line and "written" in line]
    assert [line.partition(": Lease ")[2].split(" ", 1)[1] for line in said] == [
        "cannot be written: the API server answered 403: may not update leases",
        "is written again",
    ]


def test_leases_that_were_made_for_another_number_are_not_written(world: Calm) -> None:
    server, process = world.server, world.processes[0]
    name = next(iter(server.leases))
    lease = server.write(name, Page(settled=True), server.leases[name].metadata.uid)
    lease.metadata.annotations = {names.ANNOTATION_CLAIMS: write_page(Page(), LEASES + 1)}
    with pytest.raises(ClaimsUnavailable, match=f"one of {LEASES + 1}"):
        world.claim(process)


def test_a_lease_that_was_deleted_is_made_anew_and_left_alone_for_a_while(world: Calm) -> None:
    assert world.claim(world.processes[0]).host == 0
    for _ in range(len(world.server.leases)):
        world.lease_deleted()
    with pytest.raises(ClaimsUnavailable):
        world.claim(world.processes[1])
    world.wait(75)
    assert len(world.server.leases) == LEASES
    assert world.claim(world.processes[1]).host == 0
