"""Certificates that the webhook makes for itself, shared by its replicas through a Secret."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, Protocol

from webhook.certs.certificate_error import CertificateError
from webhook.certs.issue import Pair
from webhook.certs.renewal import advance, read_holdings, write_holdings

_TRIES: Final = 5


class Vault(Protocol):
    """The Secret, and the webhook configurations in which API servers look up whom to trust."""

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        """Return the data of the Secret and its resourceVersion."""

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the data unless the Secret has changed since `version`; return whether it was
        replaced.
        """

    async def publish(self, bundle: bytes) -> bool:
        """Make `bundle` the `caBundle` of the configurations, where it is not yet; return whether
        it was in all of them.
        """


class SelfSigned:
    """Reads, renews and publishes. The replica that writes first wins; the others find their
    version outdated, and read again.

    `unavailable` is what the vault raises when it cannot be reached.
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
        """Where the pair comes from."""
        return "the self-signed certificate"

    async def fetch(self) -> Pair:
        """Return the pair to serve with, after what is due is done and published. Raises
        CertificateError.
        """
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
        """Publish a bundle, and return for how long it has been in all configurations."""
        unchanged = await self._vault.publish(bundle)
        now = self._timer()
        if not unchanged or bundle != self._bundle:
            self._bundle, self._since = bundle, now
        return timedelta(seconds=now - self._since)
