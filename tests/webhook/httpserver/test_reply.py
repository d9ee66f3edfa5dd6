"""The answer in one write, compared with that of uvicorn."""

import asyncio
import logging

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from webhook.httpserver.one_write import JSON, OneWrite

BODY = b'{"kind":"AdmissionReview"}'


class Connection(asyncio.Protocol):
    """May be proven by an answer."""

    proven = False


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
            b"".join(self.transport.writes), self.transport.closed, self.completed,
            cycle.keep_alive, cycle.response_started, cycle.response_complete,
            cycle.waiting_for_100_continue, cycle.message_event.is_set())  # fmt: skip

    async def ask(self, application: ASGIApp) -> None:
        await application(self.cycle.scope, self.cycle.receive, self.cycle.send)  # type: ignore[arg-type]  # of its own types


def respond(*, last: bool = False) -> ASGIApp:
    close = [(b"connection", b"close")] if last else []
    headers = [JSON, (b"content-length", b"%d" % len(BODY)), *close]

    async def application(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})

    return application


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("keep_alive", [False, True])
async def test_one_write_is_what_uvicorn_makes_of_two(keep_alive: bool, last: bool) -> None:
    one, two = Sent(keep_alive=keep_alive), Sent(keep_alive=keep_alive)
    await one.ask(OneWrite(respond(last=last)))
    await two.ask(respond(last=last))
    assert (len(one.transport.writes), len(two.transport.writes)) == (1, 2)
    assert one.state == two.state
    assert one.completed == 1
    assert one.transport.closed is (last or not keep_alive)
    assert one.transport.protocol.proven


async def test_a_response_in_parts_and_one_to_head_are_those_of_uvicorn() -> None:
    async def parts(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": BODY, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    for method, app in (("POST", parts), ("HEAD", respond())):
        one, two = Sent(keep_alive=True), Sent(keep_alive=True)
        for sent, application in ((one, OneWrite(app)), (two, app)):
            sent.cycle.scope["method"] = method
            await sent.ask(application)
        assert one.state == two.state


async def test_nothing_is_written_to_a_client_that_has_gone() -> None:
    answer = Sent(keep_alive=True)
    answer.cycle.disconnected = True
    await answer.ask(OneWrite(respond()))
    assert not answer.transport.writes


async def test_a_client_that_takes_nothing_is_waited_for() -> None:
    answer = Sent(keep_alive=True)
    answer.cycle.flow.pause_writing()
    task = asyncio.create_task(answer.ask(OneWrite(respond())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not answer.transport.writes
    answer.cycle.flow.resume_writing()
    await task
    assert b"".join(answer.transport.writes).endswith(BODY)
    assert answer.completed == 1


async def test_a_request_is_answered_once() -> None:
    answer = Sent(keep_alive=True)
    await answer.ask(OneWrite(respond()))
    with pytest.raises(RuntimeError):
        await answer.ask(OneWrite(respond()))
    assert (len(answer.transport.writes), answer.completed) == (1, 1)


async def test_a_client_that_goes_while_its_answer_waits_finds_nothing_begun() -> None:
    answer = Sent(keep_alive=True)
    task = asyncio.create_task(answer.ask(OneWrite(respond())))
    await asyncio.sleep(0)
    assert not answer.cycle.response_started
    answer.cycle.disconnected = True
    await task
    assert (answer.transport.writes, answer.completed) == ([], 0)
