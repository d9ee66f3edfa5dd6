"""Servers of fakes over HTTP and HTTPS, in a thread."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Handler(BaseHTTPRequestHandler):
    """Answers requests of any method by `respond`, without a log."""

    timeout = 30  # ends the thread of a connection that the client leaves open

    def respond(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.respond()

    do_HEAD = do_PATCH = do_POST = do_PUT = do_GET  # noqa: N815 - as http.server calls them

    def read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send an answer; `_` in names of headers stands for `-`."""
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(handler: type[Handler], certificate: Path | None = None) -> Iterator[int]:
    """Serve on loopback during the block, by HTTPS if there is a certificate; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = False  # each is joined in the end, so none outlives its test
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of a closed connection
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
