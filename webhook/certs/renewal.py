"""The next step in the renewal of self-signed certificates: pure decisions on the contents of the
Secret.

A leaf is renewed after two thirds of its lifetime, signed by the authority that every API server
already trusts. An authority is renewed after two thirds of its own lifetime: the new authority is
first published together with the old one, and signs its first leaf after the bundle has been
published for `PUBLISHED_FIRST`. The authority of each pair that a replica serves is therefore in
every bundle.

See docs/contributing/decisions/0008-self-signed-certificates.md.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from webhook.certs.certificate_error import CertificateError
from webhook.certs.issue import Pair, issue_authority, issue_server
from webhook.certs.validity import read_validity

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 90
PUBLISHED_FIRST: Final = timedelta(minutes=10)
"""The time from the publication of a new authority to its first signature: API servers receive the
new bundle within seconds, a replica within a poll."""

_FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


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
    return Holdings(
        Pair(data["ca.crt"], data["ca.key"]),
        Pair(data["tls.crt"], data["tls.key"]),
        data.get("ca-previous.crt", b""),
    )


def write_holdings(holdings: Holdings) -> dict[str, bytes]:
    """Return the data of the Secret."""
    return {
        "ca.crt": holdings.authority.certificate,
        "ca.key": holdings.authority.key,
        "tls.crt": holdings.server.certificate,
        "tls.key": holdings.server.key,
        "ca-previous.crt": holdings.previous,
    }


def advance(
    held: Holdings | None,
    names: Sequence[str],
    now: datetime,
    published: timedelta = timedelta(),
) -> Holdings:
    """Return the desired contents of the Secret at `now`: the same value if nothing is due, else
    the next step.

    `published` is the time since when this process has observed the bundle of `held` in the
    configurations, not a time in certificates, which are from another clock.
    """
    if held is None or _expired(held.authority.certificate, now):
        authority = issue_authority(names[0], AUTHORITY_DAYS, now)
        return Holdings(authority, _leaf(authority, names, now))
    if read_validity(held.authority.certificate).worn(now):
        return held._replace(
            authority=issue_authority(names[0], AUTHORITY_DAYS, now),
            previous=held.authority.certificate,
        )
    if _server_due(held, names, now, published):
        return held._replace(server=_leaf(held.authority, names, now))
    if held.previous and _expired(held.previous, now):
        return held._replace(previous=b"")
    return held


def _leaf(authority: Pair, names: Sequence[str], now: datetime) -> Pair:
    try:
        return issue_server(authority, names, SERVER_DAYS, now)
    except (ValueError, TypeError) as error:
        raise CertificateError(
            f"ca.key of the Secret cannot sign ({error}); empty the Secret, and all is issued "
            "afresh"
        ) from None


def _server_due(held: Holdings, names: Sequence[str], now: datetime, published: timedelta) -> bool:
    """Return whether to issue a leaf now; an unusable leaf is replaced without a new authority."""
    if _expired(held.server.certificate, now) or _names(held.server.certificate) != set(names):
        return True
    trusted = published >= PUBLISHED_FIRST or _signed(held.authority, held.server)
    return trusted and read_validity(held.server.certificate).worn(now)


def _signed(authority: Pair, server: Pair) -> bool:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    try:
        x509.load_pem_x509_certificate(server.certificate).verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _expired(pem: bytes, now: datetime) -> bool:
    return now >= read_validity(pem).end


def _names(pem: bytes) -> set[str]:
    try:
        extension = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}
