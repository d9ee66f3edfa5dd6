"""Self-signed certificates, which replicas share in a Secret.

A leaf is renewed after two thirds of its lifetime, signed by the authority that every API server
already trusts. An authority is renewed after two thirds of its own lifetime: the new authority is
first published together with the old one, and signs its first leaf after the bundle has been
published for `PUBLISHED_FIRST`. The authority of each pair that a replica serves is therefore in
every bundle. A certificate that is not valid yet is replaced like an expired one.

See docs/contributing/decisions/0008-self-signed-certificates.md.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from webhook.certs.context import CertificateError, read_validity
from webhook.certs.issue import CLOCK_SKEW, Pair, issue_authority, issue_server
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.secrets import SecretStore

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 90
PUBLISHED_FIRST: Final = timedelta(minutes=10)
"""The time from the publication of a new authority to its first signature: API servers receive the
new bundle within seconds, a replica within a poll."""

_FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_PREVIOUS: Final = "ca-previous.crt"


class Holdings(NamedTuple):
    """The contents of the Secret. `previous` is the previous authority until it expires."""

    authority: Pair
    server: Pair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """The authorities for API servers to trust, the newest first."""
        return self.authority.certificate + self.previous


def read_holdings(data: Mapping[str, bytes]) -> Holdings | None:
    """Return the contents of a Secret, None if empty. Raises CertificateError if invalid."""
    if not data:
        return None
    absent = [name for name in _FILES if not data.get(name)]
    if absent:
        raise CertificateError(
            f"the Secret has data but no {', '.join(absent)}: it is not ours; empty it or name "
            "another"
        )
    certificate, key, *server = (data[name] for name in _FILES)
    return Holdings(Pair(certificate, key), Pair(*server), data.get(_PREVIOUS, b""))


def write_holdings(holdings: Holdings) -> dict[str, bytes]:
    """Return the data of the Secret."""
    current = zip(_FILES, (*holdings.authority, *holdings.server), strict=True)
    return {**dict(current), _PREVIOUS: holdings.previous}


def advance(
    holdings: Holdings | None,
    names: Sequence[str],
    now: datetime,
    published: timedelta = timedelta(),
) -> Holdings:
    """Return the desired contents of the Secret at `now`: the same value if nothing is due, else
    the next step.

    `published` is the time since when this process has observed the bundle of `holdings` in the
    configurations, not a time in certificates, which are from another clock.
    """
    if holdings is None or _unusable(holdings.authority.certificate, now):
        authority = issue_authority(names[0], AUTHORITY_DAYS, now)
        # Other processes may still serve a leaf of the previous authority.
        previous = holdings.previous if holdings and not _unusable(holdings.previous, now) else b""
        return Holdings(authority, _leaf(authority, names, now), previous)
    if read_validity(holdings.authority.certificate).worn(now):
        return holdings._replace(
            authority=issue_authority(names[0], AUTHORITY_DAYS, now),
            previous=holdings.authority.certificate,
        )
    if _server_due(holdings, names, now, published):
        return holdings._replace(server=_leaf(holdings.authority, names, now))
    if holdings.previous and _unusable(holdings.previous, now):
        return holdings._replace(previous=b"")
    return holdings


def _leaf(authority: Pair, names: Sequence[str], now: datetime) -> Pair:
    try:
        return issue_server(authority, names, SERVER_DAYS, now)
    except (ValueError, TypeError) as error:
        raise CertificateError(
            f"ca.key of the Secret cannot sign ({error}); empty the Secret, and all is issued "
            "afresh"
        ) from None


def _server_due(
    holdings: Holdings, names: Sequence[str], now: datetime, published: timedelta
) -> bool:
    """Return whether to issue a leaf now; an unusable leaf is replaced without a new authority."""
    if _unusable(holdings.server.certificate, now) or _names(holdings.server.certificate) != set(
        names
    ):
        return True
    # An authority that has signed before is in every bundle already.
    trusted = published >= PUBLISHED_FIRST or _has_signed(holdings.authority, holdings.server)
    return trusted and read_validity(holdings.server.certificate).worn(now)


def _has_signed(authority: Pair, server: Pair) -> bool:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    try:
        x509.load_pem_x509_certificate(server.certificate).verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _unusable(pem: bytes, now: datetime) -> bool:
    """Return whether a certificate has expired, is missing, or is from a clock that was ahead: it
    starts later than clocks of machines differ.
    """
    if not pem:
        return True
    start, end = read_validity(pem)
    return now >= end or start > now + CLOCK_SKEW


def _names(pem: bytes) -> set[str]:
    try:
        extension = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


_TRIES: Final = 5


class SelfSigned:
    """Reads, renews and publishes certificates. The first replica to write wins. The time is that
    of the API server, which verifies them, whatever the clocks of the replicas are.
    """

    def __init__(
        self,
        secret_store: SecretStore,
        names: Sequence[str],
        clock: Callable[[], datetime] | None = None,
        timer: Callable[[], float] = monotonic,
    ) -> None:
        self._secret_store = secret_store
        self._names = names
        self._clock = clock or secret_store.now
        self._timer = timer
        self._bundle = b""
        self._since = 0.0

    @property
    def place(self) -> str:
        return "the self-signed certificate"

    async def fetch(self) -> Pair:
        """Perform due steps, and return the pair to serve. Raises CertificateError."""
        try:
            return await self._fetch()
        except ApiError as error:
            raise CertificateError(
                f"the self-signed certificate cannot be renewed or read: {error}"
            ) from None

    async def _fetch(self) -> Pair:
        for _ in range(_TRIES):
            data, version = await self._secret_store.read()
            holdings = read_holdings(data)
            published = timedelta()
            if holdings is not None:
                # At every poll: others may have written the configurations, such as Helm in an
                # upgrade.
                published = await self._publish(holdings.bundle)
            next_holdings = advance(holdings, self._names, self._clock(), published)
            if next_holdings == holdings:
                return holdings.server
            if await self._secret_store.write(write_holdings(next_holdings), version):
                await self._publish(next_holdings.bundle)
                return next_holdings.server
        raise CertificateError(f"the Secret was changed by others {_TRIES} times in a row")

    async def _publish(self, bundle: bytes) -> timedelta:
        """Publish a bundle, and return how long all configurations have had it."""
        unchanged = await self._secret_store.publish(bundle)
        now = self._timer()
        if not unchanged or bundle != self._bundle:
            self._bundle, self._since = bundle, now
        return timedelta(seconds=now - self._since)
