"""The files of the certificate, and the watcher that loads a new usable pair of its source."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from webhook.certs.context import CertificateError, SwappingContext, read_validity
from webhook.certs.issue import Pair

_log: Final = logging.getLogger("webhook.certs")


class CertificateFiles:
    """Reads a certificate and its key at each fetch. The kubelet may replace both in between; then
    they do not match, and the next fetch returns the new ones.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key

    @property
    def place(self) -> str:
        return f"{self._certificate} and {self._key}"

    async def fetch(self) -> Pair:
        return self.read()

    def read(self) -> Pair:
        """Return the pair. Raises CertificateError."""
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


class CertificateSource(Protocol):
    """The source of the certificate."""

    @property
    def place(self) -> str:
        """The location, for messages."""

    async def fetch(self) -> Pair:
        """Return the pair to serve now. Raises CertificateError."""


POLL_SECONDS: Final = 10.0
"""The period of polls. The kubelet takes a minute or two to update a mounted Secret."""


class CertificateWatcher:
    """Keeps `context` at the newest usable pair of `source`, polled every `seconds`.

    Content is compared, not times: the kubelet may restore an old pair. With `client_ca`, that file
    is kept up to date as well.
    """

    def __init__(
        self,
        source: CertificateSource,
        context: SwappingContext,
        client_ca: Path | None = None,
        seconds: float = POLL_SECONDS,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.loads = 0
        """Pairs loaded since the start."""
        self.problem = ""
        """Why the newest pair is not served; empty if it is."""
        self._source = source
        self._context = context
        self._seconds = seconds
        self._client_ca = client_ca
        self._served: tuple[Pair, bytes] | None = None
        self._clock = clock

    def take(self, pair: Pair) -> bool:
        """Serve a pair, return whether it is new. On CertificateError, the old pair is kept."""
        material = pair, b"" if self._client_ca is None else read_file(self._client_ca)
        if material == self._served:
            return False
        try:
            self._refuse_invalid(pair)
            self._context.load(*material)
        except CertificateError as error:
            raise CertificateError(f"cannot serve with {self._source.place}: {error}") from None
        self._served = material
        self.loads += 1
        return True

    async def run(self) -> None:
        """Poll until cancelled. A pair that was loaded before is logged first."""
        if self._served is not None:
            self._log_loaded()
        while True:
            await self.poll()
            await asyncio.sleep(self._seconds)

    async def poll(self) -> None:
        """Poll once. A repeated failure is logged only once."""
        try:
            new = self.take(await self._source.fetch())
        except CertificateError as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error("%s", error)
            return
        if new:
            self._log_loaded()
        elif self.problem:
            _log.info("the source has the served certificate again")
        self.problem = ""

    def _log_loaded(self) -> None:
        end = datetime.fromtimestamp(self._context.expires, UTC)
        _log.info(f"serving with a certificate that expires on {end:%Y-%m-%d %H:%M} UTC")

    def _refuse_invalid(self, pair: Pair) -> None:
        """Reject a pair that has expired or is not valid yet if the served pair is valid; otherwise
        the new pair is loaded, so that the client's error names the problem. Raises
        CertificateError.
        """
        now = self._clock()
        start, end = read_validity(pair.certificate)
        if not self._context.valid(now):
            return
        if end.timestamp() <= now:
            raise CertificateError(f"the certificate expired on {end:%Y-%m-%d %H:%M} UTC; renew it")
        if now < start.timestamp():
            raise CertificateError(
                f"the certificate is valid from {start:%Y-%m-%d %H:%M} UTC; it is served then"
            )
