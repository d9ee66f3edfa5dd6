"""A webhook of another program, which records the reviews that it gets."""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.api import MUTATING_WEBHOOKS, Json
from tests.e2e.control_plane import ControlPlane
from tests.harness.http_server import Handler, serving

HOUR: Final = dt.timedelta(hours=1)

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
        authority = certificate(self._file, "127.0.0.1", HOUR)
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


def certificate(path: Path, address: str, ends: dt.timedelta) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    now = dt.datetime.now(dt.UTC)
    address_of = x509.IPAddress(ipaddress.ip_address(address))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * HOUR)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address_of]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made)
    return made
