"""Leases that hold pages of claims: how a page is written, and where it is read, created and
replaced.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from webhook.follow.client import Api
from webhook.follow.errors import ApiError
from webhook.follow.listwatch import Resource
from webhook.follow.wire import Codec, Event, decoded, number
from webhook.follow.wire import Page as ListPage
from webhook.groups.ledger import Account, Claim, Key, Page
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.shards import ShardIndex, ShardKey
from webhook.kube import names

FORMAT: Final = 1
"""Of the content. A process that meets a higher one claims nothing there: a newer version has
written it.
"""

READ_SECONDS: Final = 2.0
WRITE_SECONDS: Final = 2.0
"""Deadlines of one request. A review has 10 s, unless told otherwise."""

_SELECTOR: Final = f"{names.LABEL_CLAIMS}=true"


class PageUnreadable(Exception):  # noqa: N818 - named for what it is
    """A Lease that cannot be used. The message says why, and what to do."""


class LeasesDiffer(PageUnreadable):
    """A Lease that was made for another number of Leases: two processes would look for one group in
    different places.
    """


class _SeatAccount(Struct, array_like=True):
    namespace: str
    cluster_uid: str
    group: str
    floor: int
    claims: dict[str, tuple[Seat, int]]


class _IndexAccount(Struct, array_like=True):
    namespace: str
    group: str
    floor: int
    claims: dict[str, tuple[ShardIndex, int]]


class _Content(Struct):
    format: int
    leases: int
    settled: bool = False
    dropped: int = 0
    seats: list[_SeatAccount] = []
    indices: list[_IndexAccount] = []
    ages: dict[str, int] = {}


class _Format(Struct):
    format: int


class _Meta(Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Lease(Struct):
    """The few fields of a Lease that we read."""

    metadata: _Meta = field(default_factory=_Meta)

    @property
    def version(self) -> int:
        """Its resourceVersion."""
        return number(self.metadata.resource_version)


CODEC: Final = Codec(
    msgspec.json.Decoder(Lease),
    msgspec.json.Decoder(ListPage[Lease]),
    msgspec.json.Decoder(Event[Lease]),
)
_content: Final = msgspec.json.Decoder(_Content)
_format: Final = msgspec.json.Decoder(_Format)
_encode: Final = msgspec.json.Encoder().encode


def read_page(lease: Lease, leases: int) -> Page:
    """Return the page of a Lease, one of `leases`. Raises PageUnreadable."""
    name, content = lease.metadata.name, check_page(lease)
    if content.leases != leases:
        msg = (
            f"Lease {name} is one of {content.leases}, and claims.leases is {leases}: set it to "
            f"{content.leases}, or stop all "
            f"processes, delete the Leases, and start again"
        )
        raise LeasesDiffer(msg)
    accounts: dict[Key, Account] = {}
    for seats in content.seats:
        claims = {ident: Claim(seat, after) for ident, (seat, after) in seats.claims.items()}
        accounts[GroupKey(seats.namespace, seats.cluster_uid, seats.group)] = Account(
            seats.floor, claims
        )
    for indices in content.indices:
        claims = {ident: Claim(index, after) for ident, (index, after) in indices.claims.items()}
        accounts[ShardKey(indices.namespace, indices.group)] = Account(indices.floor, claims)
    return Page(accounts, content.settled, content.dropped, content.ages)


def check_page(lease: Lease) -> _Content:
    """Return the content of a Lease, one of any number. Raises PageUnreadable."""
    name = lease.metadata.name
    text = (lease.metadata.annotations or {}).get(names.ANNOTATION_CLAIMS, "")
    try:
        found = _format.decode(text).format
        if found != FORMAT:
            msg = (
                f"Lease {name} has claims of format {found}, and this version knows {FORMAT}: run "
                "the version that wrote it"
            )
            raise PageUnreadable(msg)
        return _content.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        msg = (
            f"Lease {name} does not have the claims that were written into it ({error}): delete "
            "it, and it is made anew"
        )
        raise PageUnreadable(msg) from None


def write_page(page: Page, leases: int) -> str:
    """Return a page as the annotation of a Lease has it."""
    content = _Content(FORMAT, leases, page.settled, page.dropped, ages=dict(page.ages))
    for key, account in page.accounts.items():
        claims: dict[str, Any] = {
            ident: (claim.value, claim.after) for ident, claim in account.claims.items()
        }
        if isinstance(key, GroupKey):
            content.seats.append(
                _SeatAccount(key.namespace, key.cluster_uid, key.group, account.floor, claims)
            )
        else:
            content.indices.append(_IndexAccount(key.namespace, key.group, account.floor, claims))
    return _encode(content).decode()


class LeaseStore:
    """The Leases of one namespace, by name."""

    def __init__(self, api: Api, namespace: str, leases: int) -> None:
        self.leases = leases
        self._api = api
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self.resource = Resource("leases", namespace, self._path, CODEC, _SELECTOR)

    async def read(self, name: str) -> Lease:
        """Return a Lease as it is now. Raises ApiError, of reason `missing` when there is none. It
        is a list.
        """
        _, found = CODEC.page(
            await self._api.get(
                self._path, [("fieldSelector", f"metadata.name={name}")], READ_SECONDS
            )
        )
        if not found:
            raise ApiError("missing", f"there is no Lease {name}")
        return found[0]

    async def create(self, name: str) -> Lease:
        """Create a Lease with a page that is not settled. Raises ApiError, of reason `conflict`
        when there is one.
        """
        body = await self._api.create(self._path, self._object(name, Page()), WRITE_SECONDS)
        return decoded(body, Lease, "a Lease")

    async def replace(self, name: str, page: Page, known: Lease) -> Lease:
        """Write a page in the place of the Lease that is known. Raises ApiError, of reason
        `conflict` when that has changed.
        """
        body = await self._api.replace(
            f"{self._path}/{name}", self._object(name, page, known), WRITE_SECONDS
        )
        return decoded(body, Lease, "a Lease")

    def _object(self, name: str, page: Page, known: Lease | None = None) -> Mapping[str, object]:
        meta: dict[str, object] = {
            "namespace": self._namespace,
            "name": name,
            "labels": {names.LABEL_CLAIMS: "true"},
        }
        meta["annotations"] = {names.ANNOTATION_CLAIMS: write_page(page, self.leases)}
        if known is not None:
            meta |= {"uid": known.metadata.uid, "resourceVersion": known.metadata.resource_version}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": {},
        }


def lease_name(number_of_lease: int) -> str:
    """Return the name of a Lease."""
    return f"ray-webhook-claims-{number_of_lease:02x}"
