"""What to do next about the certificates that the webhook makes for itself: pure decisions over
what its Secret holds.

A leaf is renewed after two thirds of its time, under the authority that every API server already
trusts. An authority is renewed after two thirds of its own: the new one is published beside the old
one first, and signs its first leaf when the bundle has been published for `PUBLISHED_FIRST`. So
whatever pair a replica serves, its authority is in every bundle.

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
"""How long the bundle of a new authority is published before it signs: API servers receive the new
bundle within seconds, a replica within a poll.
"""

_FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class Holdings(NamedTuple):
    """What the Secret holds. `previous` is the certificate of the authority before, until it has
    expired.
    """

    authority: Pair
    server: Pair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """The authorities that API servers have to trust, the newest first."""
        return self.authority.certificate + self.previous


def read_holdings(data: Mapping[str, bytes]) -> Holdings | None:
    """Return what a Secret holds, None for an empty one. Raises CertificateError for one that holds
    something else.
    """
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
    """Return what the Secret should hold at `now`: the same value when there is nothing to do, else
    one step further.

    `published` is for how long the bundle of `held` has been in the configurations, as far as this
    process knows. It is not read from certificates, whose times are those of another clock.
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
    """Return whether to issue a leaf now; a leaf that cannot serve at all does not wait for a new
    authority.
    """
    if _expired(held.server.certificate, now) or _names(held.server.certificate) != set(names):
        return True
    trusted = published >= PUBLISHED_FIRST or _signed(held.authority, held.server)
    return trusted and read_validity(held.server.certificate).worn(now)


def _signed(authority: Pair, server: Pair) -> bool:
    """Return whether an authority has signed a leaf."""
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
