"""The API server's message for each failed call has a row in docs/troubleshooting.md."""

import base64
import datetime as dt
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.api import MUTATING_WEBHOOKS, PODS, ApiError
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import free_port
from tests.e2e.stub_webhook import HOUR, certificate
from tests.e2e.waiting import until
from webhook.httpserver.review_routes import status_of

pytestmark = pytest.mark.e2e

NAME = "failing"
PAGE = ROOT / "docs" / "troubleshooting.md"
READ = "Pod team/ray-worker-: a live read failed: 403"
LATE = "Pod team/ray-worker-: the API server did not answer a live read within 3 s"
TABLE = "Pod team/ray-worker-: the reservations of group tpu cannot be written: 403"
SLOW = "Pod team/ray-worker-: the reads and writes that this review needs took more than 8 s"
BUG = b"ray-webhook failed to review this object; its log has the traceback"

Answer = tuple[int, dict[str, str], bytes]
NOT_READY: Answer = (503, {"Retry-After": "1"}, b"not ready: waiting for Leases; try again")
NONE: Answer = (0, {}, b"")


def refusal(text: str) -> Answer:
    """Return the answer to a review that cannot be decided."""
    return 503, {"Content-Type": "application/json"}, status_of(text)


CALLS: dict[str, tuple[dict[str, Any], Answer]] = {
    "x509: certificate signed by unknown authority": ({"trusted": False}, NONE),
    "x509: certificate has expired": ({"ends": -HOUR}, NONE),
    "x509: certificate is valid for ..., not ray-webhook.ray-webhook.svc": (
        {"address": "127.0.0.2"},
        NONE,
    ),
    "connection refused": ({"listens": False}, NONE),
    "context deadline exceeded": ({}, NONE),
    "context deadline exceeded after 10 s": ({}, NOT_READY),
    "Pod NAMESPACE/NAME: a live read failed: ...": ({}, refusal(READ)),
    "... the API server did not answer a live read within 3 s": ({}, refusal(LATE)),
    "Pod NAMESPACE/NAME: the reservations of group ... cannot be ...": ({}, refusal(TABLE)),
    "Pod NAMESPACE/NAME: the reads and writes that this review needs took more than ... s": (
        {},
        refusal(SLOW),
    ),
    "ray-webhook failed to review this object": (
        {},
        (500, {"Content-Type": "text/plain; charset=utf-8"}, BUG),
    ),
}
"""Each message of the page, and how it comes about."""

ELSEWHERE = {"i/o timeout", "no endpoints available"}
"""Messages of networks that this control plane does not have."""


@pytest.mark.parametrize("message", CALLS)
def test_a_failed_call_is_reported_as_the_page_says(
    control_plane: ControlPlane, tmp_path: Path, message: str
) -> None:
    how, answer = CALLS[message]
    namespace = control_plane.namespace("failed-calls")
    pattern = re.escape(message.removesuffix(" after 10 s")).replace(r"\.\.\.", ".*")
    pattern = pattern.replace("NAMESPACE/NAME", ".*").replace(
        re.escape("ray-webhook.ray-webhook.svc"), ".*"
    )
    with answering(answer, tmp_path, **how) as client, registered(control_plane, client):

        def said() -> str:
            try:
                control_plane.api.create(PODS, pod(), namespace, dryRun="All")
            except ApiError as error:
                return str(error)
            return ""

        # It takes the API server a moment until it goes by a new configuration
        until(lambda: re.search(pattern, said()), f"the message {message}")


def test_each_row_of_the_page_is_played() -> None:
    rows = PAGE.read_text(encoding="utf-8").partition("| the message continues with |")[2]
    rows = rows.partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in rows.splitlines()[2:]]
    found = {message for first in firsts for message in re.findall(r"`([^`]+)`", first)}
    assert found == {*CALLS, *ELSEWHERE} - {"context deadline exceeded after 10 s"}
    assert any("after 10 s" in first for first in firsts)


@contextmanager
def answering(
    answer: Answer,
    folder: Path,
    *,
    trusted: bool = True,
    ends: dt.timedelta = HOUR,
    address: str = "127.0.0.1",
    listens: bool = True,
) -> Iterator[dict[str, str]]:
    """Give the clientConfig of a server that gives one answer; NONE is that it gives none."""
    status, headers, body = answer
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        timeout = 30  # ends the thread of a connection that the client leaves open

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if not status:
                over.wait()
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    authority = certificate(folder / "used.pem", address, ends)
    if not trusted:
        authority = certificate(folder / "other.pem", address, HOUR)
    bundle = base64.b64encode(authority).decode()
    if not listens:
        yield {"url": f"https://127.0.0.1:{free_port()}/", "caBundle": bundle}
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "used.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": bundle}
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def registered(plane: ControlPlane, client: dict[str, str]) -> Iterator[None]:
    """Have the API server call for pods that ask for it, with a second to answer."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": "failing.example.com",
        "clientConfig": client,
        "rules": [{**rule, "operations": ["CREATE"]}],
        "objectSelector": {"matchLabels": {NAME: "true"}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    plane.api.create(MUTATING_WEBHOOKS, {"metadata": {"name": NAME}, "webhooks": [webhook]})
    try:
        yield
    finally:
        plane.api.delete(MUTATING_WEBHOOKS, NAME)


def pod() -> dict[str, Any]:
    """Return a pod whose creation is asked about."""
    spec = {"containers": [{"name": "c", "image": "c"}]}
    return {"metadata": {"generateName": "p-", "labels": {NAME: "true"}}, "spec": spec}
