"""The chart in a registry, and its digest in the checksums of a release."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from tests.harness.http_server import Handler, serving
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

    class Registry(Handler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            if self.command == "POST":
                self.send(202, Location=f"{self.path}1")
            elif self.command == "PUT":
                self._store(self.read())
                self.send(201)
            else:
                body = content.get(self.path)
                self.send(404 if body is None else 200, body or b"", Content_Type=MANIFEST)

        def _store(self, body: bytes) -> None:
            digest = f"sha256:{sha256(body).hexdigest()}"
            path, _, query = self.path.partition("?")
            folder = path.removesuffix("uploads/1") if query else path.rpartition("/")[0] + "/"
            content[folder + digest] = body
            if not query:
                content[path] = body

    with serving(Registry) as port:
        yield f"127.0.0.1:{port}/team", content


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
