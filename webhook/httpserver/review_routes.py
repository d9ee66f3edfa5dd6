"""The routes of reviews: from the bytes of a request to those of the response."""

import asyncio
import re
from collections.abc import Awaitable, Mapping
from time import perf_counter
from typing import Final, Protocol, TypeVar

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.telemetry import TelemetryConfig
from msgspec.json import encode
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

from webhook.admission.reviewer import REVIEW_SECONDS, Outcome
from webhook.api.formats import shorten
from webhook.api.review import BadReview, NotNow
from webhook.httpserver.application import Readiness
from webhook.httpserver.body_budget import BodyBudget, OverBudget
from webhook.httpserver.review_threads import QueueFull

T = TypeVar("T")

_DIGITS: Final = 20
"""Digits of a Content-Length; no number of bytes has more."""

BODY_MAX: Final = 7 * 1024 * 1024
"""Bytes: two objects of at most 3 MiB and the review around them, which is also the limit of
controller-runtime.
"""

_REFUSAL: Final = 1000
"""Characters of a refusal, which may repeat texts of the body."""
_RETRY: Final = {"retry-after": "1"}
_CLOSE: Final = {"connection": "close"}
_LAST: Final = {**_RETRY, **_CLOSE}
_JSON: Final = "application/json"
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI would search for OpenTelemetry providers on each request; `webhook.metrics` provides
metrics and log.
"""


class Reviewer(Protocol):
    """Answers the reviews of one route."""

    async def review(
        self, body: bytes, seconds: float = REVIEW_SECONDS, client: str = ""
    ) -> Outcome:
        """Return the outcome of a review that a client sent, whose reads and writes may take
        `seconds`. Raises BadReview, NotNow or QueueFull.
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


class ReviewRoute:
    """Answers a request with the verdict of `reviewer`.

    While draining, it still answers, and closes each connection after its response.
    """

    def __init__(
        self, reviewer: Reviewer, gate: Readiness, observer: Observer, budget: BodyBudget
    ) -> None:
        self._reviewer = reviewer
        self._budget = budget
        self._gate = gate
        self._open = False
        self._observer = observer

    async def __call__(self, request: Request) -> Response:
        """Return the response to a review. Raises an exception for which the application has a
        handler.
        """
        started = perf_counter()
        _require_json(request)
        try:
            outcome = await self._review(request)
        except asyncio.CancelledError:  # the server stops, after its grace period
            # The API server repeats a 503 with Retry-After, and by `connection: close` on a new
            # connection.
            raise HTTPException(503, "this process stops; try again", _LAST) from None
        # Catch everything: an internal error must not close the connection.
        except Exception as error:
            # FastAPI calls a handler for the class of an error or of one of its bases.
            if any(kind in request.app.exception_handlers for kind in type(error).__mro__):
                raise
            self._observer.failed(error)
            message = "ray-webhook failed to review this object; its log has the traceback"
            raise HTTPException(500, message) from None
        self._observer.reviewed(outcome, perf_counter() - started)
        # kube-proxy does not move established connections away from a terminating pod.
        # https://github.com/kubernetes/kubernetes/issues/127335
        headers = _CLOSE if self._gate.draining else None
        return Response(outcome.body, headers=headers, media_type=_JSON)

    async def _review(self, request: Request) -> Outcome:
        message = await request.receive()
        body = message.get("body", b"")
        # Most reviews are one read; only the others need the budget.
        if message.get("more_body", True) or len(body) > BODY_MAX:
            return await self._review_large(request, message)
        return await self._decide(request, body)

    async def _decide(self, request: Request, body: bytes) -> Outcome:
        self._require_ready()
        host, _ = request.scope.get("client") or ("", 0)
        return await self._reviewer.review(body, review_seconds(request), host)

    async def _review_large(self, request: Request, message: Message) -> Outcome:
        """Review a body that begins with `message`, within the budget."""
        length = request.headers.get("content-length", "").lstrip("0")
        # `int` raises ValueError for more than 4,300 digits.
        if length.isdigit() and (len(length) > _DIGITS or int(length) > BODY_MAX):
            raise _too_large()
        parts: list[bytes] = []
        size = 0
        with self._budget.body() as count:
            while message["type"] != "http.disconnect":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > BODY_MAX:
                    raise _too_large()
                more = message.get("more_body", False)
                count(size, not more)
                if not more:
                    return await self._decide(request, b"".join(parts))
                await asyncio.sleep(self._budget.pause)
                message = await request.receive()
        raise ClientDisconnect

    def _require_ready(self) -> None:
        """Raise HTTPException until the gate has been open once; not before the body is read,
        because closing the connection early could discard the response.

        Afterwards only an expired certificate could close the gate, with which no API server
        connects.
        """
        if self._open:
            return
        reason = self._gate.closed()
        if reason is not None:
            raise HTTPException(503, f"{reason}; try again", _LAST)
        self._open = True


def review_application(
    reviewers: Mapping[str, Reviewer],
    gate: Readiness,
    observer: Observer,
    budget: BodyBudget | None = None,
) -> FastAPI:
    """Return the application that answers reviews by path.

    A route takes a Request and returns a Response: resolving parameters, which it does not have,
    would cost as much as the review.
    """
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    budget = budget or BodyBudget()
    for path, reviewer in reviewers.items():
        route = ReviewRoute(reviewer, gate, observer, budget)
        app.add_route(path, route.__call__, methods=["POST"])
    _handle_errors(app, observer, " and ".join(reviewers))
    return app


def _handle_errors(app: FastAPI, observer: Observer, paths: str) -> None:
    def refuse(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
        message = shorten(text, _REFUSAL)
        observer.refused(status, message)
        return PlainTextResponse(message, status, headers)

    @app.exception_handler(StarletteHTTPException)
    async def handle_http_error(_: Request, error: StarletteHTTPException) -> Response:
        details = {
            404: f"no such path; reviews are served at {paths}",
            405: "send an AdmissionReview by POST",
        }
        return refuse(
            error.status_code, details.get(error.status_code, error.detail), error.headers
        )

    @app.exception_handler(BadReview)
    async def bad_review(_: Request, error: BadReview) -> Response:
        # Not a denial, which has to repeat the uid of the review: such a body may lack it.
        return refuse(400, str(error))

    @app.exception_handler(OverBudget)
    async def over_budget(_: Request, _error: OverBudget) -> Response:
        return refuse(503, "too many large bodies are in flight; try again", _RETRY)

    @app.exception_handler(QueueFull)
    async def queue_full(_: Request, error: QueueFull) -> Response:
        return refuse(503, str(error), _RETRY)

    @app.exception_handler(NotNow)
    async def not_now(_: Request, error: NotNow) -> Response:
        message = f"{error.subject}: {error}"
        observer.undecided(message)
        observer.refused(503, message)
        # No Retry-After: the API server would repeat until its timeout and report only that.
        return Response(status_of(message), 503, media_type=_JSON)

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(_: Request, _error: ClientDisconnect) -> Response:
        return Response()  # which is not sent


def _too_large() -> HTTPException:
    message = (
        f"the body is larger than {BODY_MAX} bytes, which no AdmissionReview of kube-apiserver is"
    )
    return HTTPException(413, message)


def _require_json(request: Request) -> None:
    """Raise HTTPException for a request that cannot be a review, before its body is read."""
    kind = request.headers.get("content-type", "")
    if kind != _JSON and kind.partition(";")[0].strip().lower() != _JSON:
        raise HTTPException(415, "send an AdmissionReview as Content-Type: application/json")


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


def review_seconds(request: Request) -> float:
    """Return the time for the reads and writes of a review: four fifths of the API server's timeout
    for it, which is in the query, such as `timeout=10s`. After a timeout, the API server reports no
    reason.
    """
    timeout = _TIMEOUT.search(request.scope.get("query_string", b""))
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
