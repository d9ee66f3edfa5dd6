"""Responses of the API server for any resource: pages of a list, events of a watch, and the Status
of a failure.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from webhook.kubeclient.errors import ApiError, Garbled


class Status(Struct):
    """A `v1` Status."""

    code: int = 0
    reason: str | None = None
    message: str | None = None


class Versioned(Protocol):
    """Metadata with the resourceVersion of its object."""

    @property
    def uid(self) -> str | None:
        """Return the uid; empty in a bookmark."""

    @property
    def resource_version(self) -> str:
        """Return the version of the last write of the object."""


class Watched(Protocol):
    """An object that can be listed and watched."""

    @property
    def metadata(self) -> Versioned:
        """Return the metadata."""


T = TypeVar("T", bound=Watched)
K = TypeVar("K")

Selection = Sequence[tuple[str, str]]
"""The parameters of a list."""


class ListMeta(Struct, rename="camel"):
    """`metadata` of a page. `token` is set if there are more pages."""

    resource_version: str = ""
    token: str | None = field(default=None, name="continue")
    unreadable: list[str] = []
    """The uids of items that were omitted, because they could not be decoded."""


class Page(Struct, Generic[T]):
    """A page of a list."""

    metadata: ListMeta
    items: list[T] | None = None


class Event(Struct, Generic[T]):
    """An event of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: T


class _StubMeta(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class Stub(Struct):
    """The fields that every object has."""

    metadata: _StubMeta = field(default_factory=_StubMeta)


class _RawPage(Struct):
    metadata: ListMeta
    items: list[Raw] | None = None


class _ErrorEvent(Struct):
    object: Status


_raw_pages: Final = msgspec.json.Decoder(_RawPage)
_stubs: Final = msgspec.json.Decoder(Stub)
_stub_events: Final = msgspec.json.Decoder(Event[Stub])
_error_events: Final = msgspec.json.Decoder(_ErrorEvent)


class Codec(Generic[T]):
    """Decodes the pages and events of a resource. An object that does not match its type is
    returned as a Stub.
    """

    def __init__(self, kind: type[T]) -> None:
        # mypy does not allow a variable as a type; msgspec does.
        page: type[Page[T]] = Page[kind]  # type: ignore[valid-type]
        event: type[Event[T]] = Event[kind]  # type: ignore[valid-type]
        self._item = msgspec.json.Decoder(kind)
        self._page = msgspec.json.Decoder(page)
        self._event = msgspec.json.Decoder(event)

    def page(self, body: bytes) -> tuple[ListMeta, list[T]]:
        """Return a page, without the objects that cannot be decoded. Raises Garbled."""
        try:
            page = self._page.decode(body)
        except msgspec.ValidationError:
            return self._salvaged(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _garbled("list", body) from error
        return page.metadata, page.items or []

    def event(self, line: bytes) -> Event[T] | Event[Stub]:
        """Return an event. Raises Garbled."""
        try:
            return self._event.decode(line)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _garbled("watch", line) from error
        try:
            return _stub_events.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _garbled("watch", line) from error

    def _salvaged(self, body: bytes) -> tuple[ListMeta, list[T]]:
        try:
            page = _raw_pages.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _garbled("list", body) from error
        items: list[T] = []
        for raw in page.items or ():
            try:
                items.append(self._item.decode(raw))
            except msgspec.ValidationError:
                page.metadata.unreadable.append(_uid_of(raw))
        return page.metadata, items


def _uid_of(raw: Raw) -> str:
    """Return the uid of an object that cannot be decoded; empty if it has none."""
    try:
        return _stubs.decode(raw).metadata.uid
    except msgspec.DecodeError:
        return ""


def decoded(body: bytes, kind: type[K], what: str) -> K:
    """Return a response of the API server as `kind`. Raises Garbled if it is not `what`, such as `a
    Lease`.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"the API server's response is not {what}: is a proxy in between?"
        raise Garbled("garbled", text) from error


def listed(body: bytes, kind: type[Page[T]]) -> tuple[ListMeta, list[T]]:
    """Return a page of a list. Raises Garbled."""
    page = decoded(body, kind, "a list")
    return page.metadata, page.items or []


async def pages(
    get: Callable[[Selection], Awaitable[bytes]],
    read: Callable[[bytes], tuple[ListMeta, list[K]]],
    selection: Selection,
    limit: int,
) -> AsyncIterator[tuple[ListMeta, list[K]]]:
    """Yield the pages of a list. Raises the exceptions of `get` and `read`.

    `get` requests a page of up to `limit` objects, and `read` decodes it. After a page that is too
    large, the next ones have half as many objects.
    """
    more: Selection = ()
    while True:
        try:
            body = await get([*selection, ("limit", str(limit)), *more])
        except ApiError as error:
            if error.reason != "large" or limit == 1:
                raise
            limit //= 2
            continue
        meta, items = read(body)
        yield meta, items
        if not meta.token:
            return
        more = [("continue", meta.token)]


async def read_pages(
    get: Callable[[Selection], Awaitable[bytes]],
    read: Callable[[bytes], tuple[ListMeta, list[K]]],
    selection: Selection,
    limit: int,
) -> tuple[list[K], str]:
    """Return the objects of a list, and its resourceVersion, in the way of `pages`."""
    found: list[K] = []
    version = ""
    async for meta, items in pages(get, read, selection, limit):
        version = version or meta.resource_version
        found += items
    return found, version


def failure(line: bytes) -> Status:
    """Return the Status in an ERROR event, empty if it has none."""
    try:
        return _error_events.decode(line).object
    except msgspec.ValidationError:
        return Status()


def oneline(text: str) -> str:
    """Return a message of a server, sanitized for a log line."""
    return " ".join(text.split())[:300]


_DIGITS: Final = 20
"""Of a resourceVersion: etcd's revisions have 64 bits."""


def number(version: str) -> int:
    """Return a resourceVersion as a number, 0 if it is invalid, such as one with more digits than
    64 bits have.

    Versions of a resource are ordered:
    https://github.com/kubernetes/apimachinery/blob/master/pkg/util/resourceversion
    """
    return (
        int(version) if version.isascii() and version.isdigit() and len(version) <= _DIGITS else 0
    )


def _garbled(what: str, data: bytes) -> Garbled:
    return Garbled(
        "garbled",
        f"the API server sent {len(data)} bytes in a {what} that are not what it promises: is a "
        "proxy in between?",
    )
