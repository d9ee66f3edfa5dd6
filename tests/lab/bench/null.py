"""The reference: an ASGI handler on the same uvicorn with TLS, which returns a constant."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import uvloop
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from webhook.app.runtime import supervise
from webhook.certs.certificate_watcher import CertificateFiles
from webhook.certs.context import SwappingContext
from webhook.httpserver.server import HttpServer

BODY = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
    b'"response":{"uid":"","allowed":true}}'
)
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]


async def null(_scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


async def main(directory: Path) -> None:
    tls = SwappingContext()
    tls.load(CertificateFiles(directory / "tls.crt", directory / "tls.key").read())
    server = HttpServer(cast("FastAPI", cast("Any", null)), "127.0.0.1", 0, tls.listening)
    sys.stderr.write(
        f"ready: https://127.0.0.1:{server.bind()}/mutate, and http://127.0.0.1:0/readyz\n"
    )
    sys.stderr.flush()

    async def drain() -> None:
        await asyncio.sleep(0)

    await supervise({"null": server}, drain)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
