"""A webhook of another program, which records the reviews that it gets."""

import base64
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.api import Json

HOUR: Final = dt.timedelta(hours=1)

Respond = Callable[[Json], list[Json]]


class StubWebhook:
    """Answers reviews between entry and exit, with the operations of a JSON Patch that `respond`
    returns for an object. `reviews` has the path and the object of each.
    """

    def __init__(self, folder: Path, respond: Respond = lambda _: []) -> None:
        self._file = folder / "stub.pem"
        self._respond = respond
        self.reviews: list[tuple[str, Json]] = []

    def __enter__(self) -> Self:
        authority = certificate(self._file, "127.0.0.1", HOUR)
        self._bundle = base64.b64encode(authority).decode()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30  # ends the thread of a connection that the client leaves open

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = json.dumps(stub._answer(self.path, json.loads(body))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._file)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def client_config(self, path: str) -> Json:
        """Return the `clientConfig` of an entry that calls it at a path."""
        url = f"https://127.0.0.1:{self._server.server_port}/{path}"
        return {"url": url, "caBundle": self._bundle}

    def _answer(self, path: str, review: Json) -> Json:
        request = review["request"]
        self.reviews.append((path.strip("/").partition("?")[0], request["object"]))
        response = {"uid": request["uid"], "allowed": True}
        operations = self._respond(request["object"])
        if operations:
            patch = base64.b64encode(json.dumps(operations).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def certificate(path: Path, address: str, ends: dt.timedelta) -> bytes:
    """Write a certificate of its own authority with its key, and return it."""
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
