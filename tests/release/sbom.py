"""Complete the SBOM that cyclonedx-py writes of the installed packages: `python -m
tests.release.sbom FILE WHEELS [BASE_DIGEST]`.

It adds the version of this program, the hash of each wheel, the scripts that the dashboard
contains, the base image and its interpreter. Debian's packages in the base are listed by the SBOM
that BuildKit attaches to the image (`sbom: true` in `.github/workflows/release.yaml`).
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests import ROOT
from tests.release.image import base_image
from tests.release.pins import normal
from webhook import __version__

STATIC: Final = ROOT / "webhook" / "dashboard" / "static"

Object = dict[str, Any]


def completed(document: Object, wheels: Path, digest: str = "") -> Object:
    """Return a CycloneDX document with what pip does not know. Raises ValueError for a component
    without its wheel.
    """
    hashes = dict(map(_wheel, wheels.glob("*.whl")))
    components = []
    for each in document.get("components", []):
        name = normal(each["name"])
        if name == "ray-webhook":
            components.append(each | {"version": __version__})
        elif (name, each["version"]) in hashes:
            components.append(each | {"hashes": [_sha256(hashes[name, each["version"]])]})
        else:
            text = f"no wheel of {name} {each['version']} in {wheels}"
            raise ValueError(text)
    own = document["metadata"]["component"] | {"version": __version__}
    metadata = document["metadata"] | {"component": own}
    return document | {
        "metadata": metadata,
        "components": [*components, *vendored(), *_base(digest)],
    }


def vendored() -> Iterator[Object]:
    """Yield the scripts of others in the package, which are htmx and its extensions."""
    version = re.search(r'version="(\d+\.\d+\.\d+)"', (STATIC / "htmx.min.js").read_text())
    for script in sorted(STATIC.glob("*.min.js")):
        yield {
            "type": "library",
            "bom-ref": script.name,
            "name": script.name.removesuffix(".min.js"),
            "version": version[1] if version else "",
            "hashes": [_sha256(hashlib.sha256(script.read_bytes()).hexdigest())],
            "licenses": [{"license": {"id": "0BSD"}}],
            "externalReferences": [{"type": "website", "url": "https://htmx.org"}],
        }


def _base(digest: str) -> Iterator[Object]:
    """Yield the base image of the Dockerfile, by its digest if that is known, and its Python."""
    name, _, tag = base_image().partition(":")
    image: Object = {"type": "container", "bom-ref": "base", "name": name, "version": tag}
    yield image | ({"hashes": [_sha256(digest.removeprefix("sha256:"))]} if digest else {})
    python = tag.partition("-")[0]
    yield {"type": "application", "bom-ref": "interpreter", "name": "cpython", "version": python}


def _wheel(file: Path) -> tuple[tuple[str, str], str]:
    name, version, *_ = file.name.split("-")
    return (normal(name), version), hashlib.sha256(file.read_bytes()).hexdigest()


def _sha256(text: str) -> Object:
    return {"alg": "SHA-256", "content": text}


def main(file: str, wheels: str, digest: str = "") -> None:
    path = Path(file)
    document = completed(json.loads(path.read_text()), Path(wheels), digest)
    path.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
