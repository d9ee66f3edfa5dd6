"""The API server's message for each failed call has a row in docs/troubleshooting.md."""

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests import ROOT
from tests.e2e.api import PODS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import free_port
from tests.e2e.stub_webhook import certificate, pod_entry, registered
from tests.e2e.waiting import until
from tests.harness.http_server import Handler, serving
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
NOT_READY: Answer = (503, {"Retry_After": "1"}, b"not ready: waiting for Leases; try again")
NONE: Answer = (0, {}, b"")


def refusal(text: str) -> Answer:
    return 503, {"Content_Type": "application/json"}, status_of(text)


CALLS: dict[str, tuple[dict[str, Any], Answer]] = {
    "x509: certificate signed by unknown authority": ({"trusted": False}, NONE),
    "x509: certificate has expired": ({"expired": True}, NONE),
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
        (500, {"Content_Type": "text/plain; charset=utf-8"}, BUG),
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
    with ExitStack() as stack:
        client = stack.enter_context(answering(answer, tmp_path, **how))
        selector = {"matchLabels": {NAME: "true"}}
        entry = pod_entry(f"{NAME}.example.com", client, objectSelector=selector, timeoutSeconds=1)
        stack.enter_context(registered(control_plane, NAME, [entry]))

        def said() -> str:
            return control_plane.api.refusal(PODS, pod(), namespace)

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
    expired: bool = False,
    address: str = "127.0.0.1",
    listens: bool = True,
) -> Iterator[dict[str, str]]:
    status, headers, body = answer
    over = Event()

    class Failing(Handler):
        def respond(self) -> None:
            self.read()
            if status:
                self.send(status, body, **headers)
            else:
                over.wait()

    authority = certificate(folder / "used.pem", address, expired=expired)
    if not trusted:
        authority = certificate(folder / "other.pem")
    bundle = base64.b64encode(authority).decode()
    with serving(Failing, folder / "used.pem") as port:
        used = port if listens else free_port()
        try:
            yield {"url": f"https://127.0.0.1:{used}/", "caBundle": bundle}
        finally:
            over.set()


def pod() -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c"}]}
    return {"metadata": {"generateName": "p-", "labels": {NAME: "true"}}, "spec": spec}
