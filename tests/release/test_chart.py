"""The chart in a registry, and its digest in the checksums of a release."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests import ROOT
from tests.manifests.render import CHART
from tests.release.build import packed
from tests.release.chart import push_chart
from tests.release.checksums import checksums, write_checksums
from webhook import __version__

pytestmark = pytest.mark.manifests

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@contextmanager
def registry() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve an OCI registry for pushes; yield its address, and what it has by path."""
    content: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = content.get(self.path)
            self._answer(404 if body is None else 200, body or b"")

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self._answer(202, Location=f"{self.path}1")

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            digest = f"sha256:{sha256(body).hexdigest()}"
            path, _, query = self.path.partition("?")
            folder = path.removesuffix("uploads/1") if query else path.rpartition("/")[0] + "/"
            content[folder + digest] = body
            if not query:
                content[path] = body
            self._answer(201)

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", MANIFEST)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}/team", content
        finally:
            server.shutdown()
            thread.join()


def test_the_digest_of_the_pushed_chart_is_in_the_checksums(tmp_path: Path) -> None:
    chart = tmp_path / f"ray-webhook-{__version__}.tgz"
    chart.write_bytes(packed(CHART, 0))
    with registry() as (address, content):
        push_chart(tmp_path, address, "--plain-http")
    manifest = content[f"/v2/team/charts/ray-webhook/manifests/{__version__}"]
    reference = tmp_path / "chart.txt"
    assert reference.read_text() == (
        f"{address}/charts/ray-webhook:{__version__}@sha256:{sha256(manifest).hexdigest()}\n"
    )
    assert sha256(chart.read_bytes()).hexdigest() in manifest.decode()
    write_checksums(tmp_path)
    assert checksums([reference]) in (tmp_path / "SHA256SUMS").read_text()


def test_the_release_pushes_the_chart_before_it_writes_checksums() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    assert release.index("make push-chart") < release.index("make checksums")
    rules = (ROOT / "tests" / "lab" / "lab.mk").read_text()
    assert re.search(
        r"^push-chart:.*\n(\t.*\n)*\t.*-m tests\.release\.chart dist ", rules, re.MULTILINE
    )
