"""Write the checksums of a release: `python -m tests.release.checksums FOLDER [IMAGE@DIGEST]`.

The image's name, tag and digest become a file of the release, so that its checksum covers them.
"""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SUMS: Final = "SHA256SUMS"
_UNLISTED: Final = {SUMS, "NOTES.md"}


def checksums(files: Iterable[Path]) -> str:
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files
    )


def write_checksums(folder: Path, image: str = "") -> None:
    """Write the checksums of all files in a folder, and `image` to one of these files."""
    if image:
        (folder / "image.txt").write_text(f"{image}\n")
    files = sorted(file for file in folder.iterdir() if file.name not in _UNLISTED)
    (folder / SUMS).write_text(checksums(files))


if __name__ == "__main__":
    write_checksums(Path(sys.argv[1]), *sys.argv[2:])
