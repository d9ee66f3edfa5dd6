"""Self-signed certificates, which replicas share in a Secret."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, Protocol

from webhook.certs.certificate_error import CertificateError
from webhook.certs.issue import Pair
from webhook.certs.renewal import advance, read_holdings, write_holdings

_TRIES: Final = 5


class Vault(Protocol):
    """The Secret, and the webhook configurations that contain the `caBundle` for API servers."""

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        """Return the data of the Secret and its resourceVersion."""

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the data if the version is unchanged; return whether it was."""

    async def publish(self, bundle: bytes) -> bool:
        """Set all `caBundle`s; return whether all of them were already equal."""


class SelfSigned:
    """Reads, renews and publishes certificates. The first replica to write wins; writes of the
    others are conflicts, and they read again.

    `unavailable` is the exception of the vault if the API server is unreachable.
    """

    def __init__(self, vault: Vault, names: Sequence[str], unavailable: type[Exception]) -> None:
        self._unavailable = unavailable
        self._vault = vault
        self._names = names
        self._clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._timer: Callable[[], float] = monotonic
        self._bundle = b""
        self._since = 0.0

    @property
    def place(self) -> str:
        """The source of the pair, for messages."""
        return "the self-signed certificate"

    async def fetch(self) -> Pair:
        """Perform due steps, and return the pair to serve. Raises CertificateError."""
        try:
            return await self._fetch()
        except self._unavailable as error:
            raise CertificateError(
                f"the self-signed certificate cannot be looked after: {error}"
            ) from None

    async def _fetch(self) -> Pair:
        for _ in range(_TRIES):
            data, version = await self._vault.read()
            held = read_holdings(data)
            published = timedelta()
            if held is not None:
                published = await self._publish(held.bundle)
            wanted = advance(held, self._names, self._clock(), published)
            if wanted == held:
                return held.server
            if await self._vault.write(write_holdings(wanted), version):
                await self._publish(wanted.bundle)
                return wanted.server
        raise CertificateError(f"the Secret was changed by others {_TRIES} times in a row")

    async def _publish(self, bundle: bytes) -> timedelta:
        """Publish a bundle, and return how long all configurations have had it."""
        unchanged = await self._vault.publish(bundle)
        now = self._timer()
        if not unchanged or bundle != self._bundle:
            self._bundle, self._since = bundle, now
        return timedelta(seconds=now - self._since)
