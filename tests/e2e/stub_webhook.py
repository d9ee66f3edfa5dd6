"""A webhook of another program, which records the reviews that it gets."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from tests.e2e.api import MUTATING_WEBHOOKS, Json
from tests.e2e.control_plane import ControlPlane
from tests.harness.http_server import Handler, serving
from webhook.certs.issue import issue_authority, issue_server

Respond = Callable[[Json], list[Json]]


class StubWebhook:
    """Answers reviews between entry and exit, with the operations of a JSON Patch that `respond`
    returns for an object. `reviews` has the path and the object of each.
    """

    def __init__(self, folder: Path, respond: Respond = lambda _: []) -> None:
        self._file = folder / "stub.pem"
        self._respond = respond
        self._stack = ExitStack()
        self.reviews: list[tuple[str, Json]] = []

    def __enter__(self) -> Self:
        authority = certificate(self._file)
        self._bundle = base64.b64encode(authority).decode()
        stub = self

        class Reviewer(Handler):
            def respond(self) -> None:
                answer = json.dumps(stub._answer(self.path, json.loads(self.read())))
                self.send(200, answer.encode(), Content_Type="application/json")

        self._port = self._stack.enter_context(serving(Reviewer, self._file))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def client_config(self, path: str) -> Json:
        return {"url": f"https://127.0.0.1:{self._port}/{path}", "caBundle": self._bundle}

    def _answer(self, path: str, review: Json) -> Json:
        request = review["request"]
        self.reviews.append((path.strip("/").partition("?")[0], request["object"]))
        response = {"uid": request["uid"], "allowed": True}
        operations = self._respond(request["object"])
        if operations:
            patch = base64.b64encode(json.dumps(operations).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def pod_entry(name: str, client: Json, **fields: object) -> Json:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "name": name, "clientConfig": client, "rules": [{**rule, "operations": ["CREATE"]}],
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], **fields,
    }  # fmt: skip


@contextmanager
def registered(plane: ControlPlane, name: str, entries: Sequence[Json]) -> Iterator[None]:
    plane.api.create(MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [*entries]})
    try:
        yield
    finally:
        plane.api.delete(MUTATING_WEBHOOKS, name)


def certificate(path: Path, address: str = "127.0.0.1", *, expired: bool = False) -> bytes:
    """Write a certificate with its key, and return its authority."""
    authority = issue_authority(path.stem, 1)
    begins = datetime.now(UTC) - timedelta(days=2 if expired else 0)
    pair = issue_server(authority, [address], 1, begins)
    path.write_bytes(pair.key + pair.certificate)
    return authority.certificate
