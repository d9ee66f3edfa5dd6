"""A certificate in files, such as the mounted Secret that cert-manager renews."""

from pathlib import Path
from typing import Final

from webhook.certs.certificate_error import CertificateError
from webhook.certs.issue import Pair

_TRIES: Final = 4


class CertificateFiles:
    """Reads a certificate and its key at each fetch.

    The kubelet replaces a mounted Secret by moving the symlink `..data`, so the directory may
    change between two reads:
    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/volume/util/atomic_writer.go
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key

    @property
    def place(self) -> str:
        """The paths of the pair."""
        return f"{self._certificate} and {self._key}"

    async def fetch(self) -> Pair:
        """Return the current pair. Raises CertificateError."""
        return self.read()

    def read(self) -> Pair:
        """Return the pair once two consecutive reads are equal. Raises CertificateError."""
        pair = self._read()
        for _ in range(_TRIES):
            before, pair = pair, self._read()
            if pair == before:
                break
        return pair

    def _read(self) -> Pair:
        return Pair(read_file(self._certificate), read_file(self._key))


def read_file(path: Path) -> bytes:
    """Return the content of a file. Raises CertificateError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(
            f"{path}: {error.strerror}; `ray-webhook certs issue` makes a pair for trying things "
            "out"
        ) from None
