"""The answer in one write, compared with that of uvicorn."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

import pytest
from starlette.types import Message, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from webhook.httpserver.protocol import send_json

BODY = b'{"kind":"AdmissionReview"}'


class Connection(asyncio.Protocol):
    """May be proven by an answer."""

    proven = False

    def prove(self) -> None:
        self.proven = True


class Transport(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.protocol = Connection()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


class Sent:
    """A request of a connection, and what its answer makes of it."""

    def __init__(self, *, keep_alive: bool) -> None:
        self.transport = Transport()
        self.completed = 0
        log = logging.getLogger("uvicorn.test")
        self.cycle = RequestResponseCycle(
            scope={"type": "http", "method": "POST"},  # type: ignore[typeddict-item]  # of which nothing else is read
            transport=self.transport,
            flow=FlowControl(self.transport),
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=[(b"date", b"Sun, 22 Nov 2026 20:00:00 GMT")],
            message_event=asyncio.Event(),
            expect_100_continue=True,
            keep_alive=keep_alive,
            on_response=self._complete,
        )

    def _complete(self) -> None:
        self.completed += 1

    @property
    def state(self) -> tuple[object, ...]:
        """All that uvicorn and the connection ask of an answer."""
        cycle = self.cycle
        return (
            b"".join(self.transport.writes),
            self.transport.closed,
            self.completed,
            cycle.keep_alive,
            cycle.response_started,
            cycle.response_complete,
            cycle.waiting_for_100_continue,
            cycle.message_event.is_set(),
        )

    async def by_uvicorn(self, message: Message) -> None:
        """Send as uvicorn does; no one sees whose it is."""
        await self.cycle.send(message)  # type: ignore[arg-type]  # of its own type


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("keep_alive", [False, True])
def test_one_write_is_what_uvicorn_makes_of_two(*, keep_alive: bool, last: bool) -> None:
    async def sent(by: Callable[[Sent], Send]) -> Sent:
        answer = Sent(keep_alive=keep_alive)
        await send_json(by(answer), BODY, last=last)
        return answer

    one = asyncio.run(sent(lambda answer: cast("Send", answer.cycle.send)))
    two = asyncio.run(sent(lambda answer: answer.by_uvicorn))
    assert (len(one.transport.writes), len(two.transport.writes)) == (1, 2)
    assert one.state == two.state
    assert one.completed == 1
    assert one.transport.closed is (last or not keep_alive)


def test_nothing_is_written_to_a_client_that_has_gone() -> None:
    async def sent() -> Sent:
        answer = Sent(keep_alive=True)
        answer.cycle.disconnected = True
        await send_json(cast("Send", answer.cycle.send), BODY, last=False)
        return answer

    assert not asyncio.run(sent()).transport.writes


async def test_a_client_that_takes_nothing_is_waited_for() -> None:
    answer = Sent(keep_alive=True)
    answer.cycle.flow.pause_writing()
    task = asyncio.create_task(send_json(cast("Send", answer.cycle.send), BODY, last=False))
    await asyncio.sleep(0)
    assert not answer.transport.writes
    answer.cycle.flow.resume_writing()
    await task
    assert b"".join(answer.transport.writes).endswith(BODY)
    assert answer.completed == 1


async def test_a_request_is_answered_once() -> None:
    answer = Sent(keep_alive=True)
    await send_json(cast("Send", answer.cycle.send), BODY, last=False)
    with pytest.raises(RuntimeError):
        await send_json(cast("Send", answer.cycle.send), BODY, last=False)
    assert (len(answer.transport.writes), answer.completed) == (1, 1)


def test_answers_of_one_round_are_sent_when_all_of_them_are_there() -> None:
    async def answered() -> list[str]:
        seen: list[str] = []
        cases = {name: Sent(keep_alive=True) for name in ("one", "other")}

        async def answer(name: str) -> None:
            seen.append(f"{name} is there")
            await send_json(cast("Send", cases[name].cycle.send), BODY, last=False)
            seen.append(f"{name} is sent: {len(cases[name].transport.writes)}")

        await asyncio.gather(*map(answer, cases))
        return seen

    assert asyncio.run(answered()) == [
        "one is there",
        "other is there",
        "one is sent: 1",
        "other is sent: 1",
    ]


async def test_a_client_that_goes_while_its_answer_waits_finds_nothing_begun() -> None:
    answer = Sent(keep_alive=True)
    task = asyncio.create_task(send_json(cast("Send", answer.cycle.send), BODY, last=False))
    await asyncio.sleep(0)
    assert not answer.cycle.response_started
    answer.cycle.disconnected = True
    await task
    assert (answer.transport.writes, answer.completed) == ([], 0)
