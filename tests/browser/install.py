"""Install the dependencies of the browser tests: `python -m tests.browser.install`.

Chromium is the system's package; axe-core, which checks accessibility, is from the npm registry.
"""

import shutil
import subprocess
import sys
import tarfile
from typing import Final

from tests import ROOT

CACHE: Final = ROOT / ".cache" / "browser"
AXE: Final = CACHE / "axe.min.js"
AXE_VERSION: Final = "4.14.1"


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def main() -> int:
    try:
        if chromium() is None:
            _install("chromium")
        if not AXE.exists():
            if shutil.which("npm") is None:
                _install("npm")
            _fetch_axe()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(
            f"the browser cannot be installed: {error}; install chromium and npm by hand\n"
        )
        return 2
    return 0


def _install(package: str) -> None:
    """Install a package of Debian, as root or by sudo."""
    root = [] if shutil.which("sudo") is None else ["sudo"]
    subprocess.run([*root, "apt-get", "update", "-q"], check=False)  # of other sources, too
    subprocess.run(
        [*root, "apt-get", "install", "-q", "-y", "--no-install-recommends", package], check=True
    )


def _fetch_axe() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"], cwd=CACHE, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    archive = CACHE / packed.stdout.split()[-1]
    with tarfile.open(archive) as found:
        member = found.extractfile("package/axe.min.js")
        assert member is not None
        AXE.write_bytes(member.read())
    archive.unlink()


if __name__ == "__main__":
    sys.exit(main())
