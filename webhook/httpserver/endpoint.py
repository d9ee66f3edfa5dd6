"""The review endpoint: an ASGI application per route, from the bytes of the request to those of the
response.
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Final, Protocol, TypeVar, TypeVarTuple

from msgspec.json import encode
from starlette.types import Message, Receive, Scope, Send

from webhook.admission.reviewer import REVIEW_SECONDS, Outcome
from webhook.api.review import BadReview, NotNow
from webhook.httpserver.application import Readiness
from webhook.httpserver.body_budget import BodyBudget, OverBudget
from webhook.httpserver.protocol import JSON, send_json

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DIGITS: Final = 20
"""Digits of a Content-Length; no number of bytes has more."""

BODY_MAX: Final = 7 * 1024 * 1024
"""Bytes: two objects of at most 3 MiB and the review around them, which is also the limit of
controller-runtime.
"""

_TOO_LARGE: Final = (
    f"the body is larger than {BODY_MAX} bytes, which no AdmissionReview of kube-apiserver is"
)
_RETRY: Final = (b"retry-after", b"1")
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE: Final = (b"connection", b"close")


class Reviewer(Protocol):
    """Answers the reviews of one route."""

    async def review(self, body: bytes, seconds: float = REVIEW_SECONDS) -> Outcome:
        """Return the outcome of a review, whose reads and writes may take `seconds`. Raises
        BadReview or NotNow.
        """


class Observer(Protocol):
    """Records every review."""

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        """Record a review that was answered."""

    def undecided(self, reason: str) -> None:
        """Record a review that could not be decided, in addition to its refusal."""

    def refused(self, status: int, reason: str) -> None:
        """Record a request that got a response other than a review."""

    def failed(self, error: Exception) -> None:
        """Record an internal error."""


class Refusal(Exception):  # noqa: N818 - named for what it is
    """A request that is answered with an HTTP error status, in plain text unless there is a
    `status_object`: kube-apiserver shows either for a failed call.
    """

    def __init__(
        self, status: int, text: str, *headers: tuple[bytes, bytes], status_object: bytes = b""
    ) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers
        self.body = status_object or text.encode()
        self.media = JSON if status_object else _TEXT


class ReviewEndpoint:
    """Answers `POST` with the verdict of `reviewer`, and invalid requests with an HTTP error
    status.

    While draining, the endpoint still answers, and closes each connection after its response.
    """

    def __init__(
        self, reviewer: Reviewer, gate: Readiness, observer: Observer, budget: BodyBudget
    ) -> None:
        self._reviewer = reviewer
        self._budget = budget
        self._gate = gate
        self._open = False
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        try:
            self._check(scope)
            message = await receive()
            body = message.get("body", b"")
            if message.get("more_body", True) or len(body) > BODY_MAX:
                outcome = await self._review_large(scope, message, receive)
            else:
                self._require_ready()
                outcome = await self._reviewer.review(body, review_seconds(scope))
            if outcome is None:
                return
        except Refusal as refusal:
            await self._refuse(send, refusal)
        except OverBudget:
            text = "too many large bodies are in flight; try again"
            await self._refuse(send, Refusal(503, text, _RETRY))
        except BadReview as bad:
            await self._refuse(send, Refusal(400, str(bad)))
        except NotNow as reason:
            text = f"{reason.subject}: {reason}"
            self._observer.undecided(text)
            await self._refuse(send, Refusal(503, text, status_object=status_of(text)))
        except asyncio.CancelledError:  # the server stops, after its grace period
            text = "this process stops; try again"
            await self._refuse(send, Refusal(503, text, _RETRY, _CLOSE))
        # Catch everything: an internal error must not close the connection.
        except Exception as error:  # noqa: BLE001
            self._observer.failed(error)
            text = "ray-webhook failed to review this object; its log has the traceback"
            await self._refuse(send, Refusal(500, text))
        else:
            await send_json(send, outcome.body, last=self._gate.draining)
            self._observer.reviewed(outcome, perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        """Raise Refusal for a request that cannot be a review, before its body is read."""
        if scope["method"] != "POST":
            raise Refusal(405, "send an AdmissionReview by POST", (b"allow", b"POST"))
        if JSON not in scope["headers"]:
            kind = dict(scope["headers"]).get(b"content-type", b"")
            if kind.partition(b";")[0].strip().lower() != b"application/json":
                raise Refusal(415, "send an AdmissionReview as Content-Type: application/json")

    def _require_ready(self) -> None:
        """Raise Refusal until the gate has been open once; not before the body is read, because
        closing the connection early could discard the response.

        Afterwards only an expired certificate could close the gate, with which no API server
        connects.
        """
        if self._open:
            return
        reason = self._gate.closed()
        if reason is not None:
            raise Refusal(503, f"{reason}; try again", _RETRY, _CLOSE)
        self._open = True

    async def _review_large(
        self, scope: Scope, message: Message, receive: Receive
    ) -> Outcome | None:
        """Review a body that begins with `message`; None if the client has disconnected.

        Raises Refusal if the body is or will be too large, and OverBudget if all bodies together
        are.
        """
        length = dict(scope["headers"]).get(b"content-length", b"").lstrip(b"0")
        if length.isdigit() and (len(length) > _DIGITS or int(length) > BODY_MAX):
            raise Refusal(413, _TOO_LARGE)
        parts: list[bytes] = []
        size = 0
        with self._budget.body() as count:
            while message["type"] != "http.disconnect":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > BODY_MAX:
                    raise Refusal(413, _TOO_LARGE)
                more = message.get("more_body", False)
                count(size, not more)
                if not more:
                    self._require_ready()
                    return await self._reviewer.review(b"".join(parts), review_seconds(scope))
                await asyncio.sleep(self._budget.pause)
                message = await receive()
        return None

    async def _refuse(self, send: Send, refusal: Refusal) -> None:
        self._observer.refused(refusal.status, str(refusal))
        length = (b"content-length", b"%d" % len(refusal.body))
        headers = [refusal.media, length, *refusal.headers]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": refusal.body})


def status_of(text: str) -> bytes:
    """Return the Status of a review that cannot be decided: kubectl prints only its message."""
    return encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": text,
            "reason": "ServiceUnavailable",
            "code": 503,
        }
    )


_TIMEOUT: Final = re.compile(rb"(?:^|&)timeout=([0-9]{1,2})s(?:&|$)")


def review_seconds(scope: Scope) -> float:
    """Return the time for the reads and writes of a review: four fifths of the API server's timeout
    for it, which is in the query, such as `timeout=10s`. After a timeout, the API server reports no
    reason.
    """
    timeout = _TIMEOUT.search(scope.get("query_string", b""))
    return 0.8 * int(timeout[1]) if timeout else REVIEW_SECONDS


async def in_time(work: Awaitable[T], seconds: float) -> T:
    """Return the result of work with I/O. Raises NotNow if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError as error:
        msg = (
            f"the reads and writes that this review needs took more than {seconds:g} s: "
            "the API server or etcd is slow, or many pods of this group wait; KubeRay tries again"
        )
        raise NotNow(msg) from error


_SWITCH_SECONDS: Final = 0.0002
"""After this time the interpreter switches to another thread that is ready. The event loop waits
that long after each read, decryption or write; with Python's default of 5 ms, a small review
concurrent with a large one takes tens of milliseconds.
"""


class ReviewThread:
    """A single thread, started with its first call. Calls run in order. If the caller of a call is
    cancelled, the call is not started, or its result is dropped.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            1, "large-reviews", sys.setswitchinterval, (_SWITCH_SECONDS,)
        )

    def __call__(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Return the future result of a function without side effects."""
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
