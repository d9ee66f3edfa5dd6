"""Lists of any resource, and the decoders of their pages and of the events of a watch."""

from collections.abc import AsyncIterator
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from webhook.kubeclient.client import JSON, LINE_BYTES, LIST_METADATA, UNREADABLE, Api, Query
from webhook.kubeclient.errors import ApiError


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

_PAGE_ITEMS: Final = 500


class ListMeta(Struct, rename="camel"):
    """`metadata` of a page. `token` is set if there are more pages."""

    resource_version: str = ""
    token: str | None = field(default=None, name="continue")
    unreadable: list[str] = []
    """The uids of items that were omitted, because they could not be decoded."""


class Page(Struct, Generic[K]):
    """A page of a list."""

    metadata: ListMeta
    items: list[K] | None = None


class Event(Struct, Generic[K]):
    """An event of a watch."""

    type: str
    object: K


class _StubMeta(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class Stub(Struct):
    """The fields that every object has."""

    metadata: _StubMeta = field(default_factory=_StubMeta)


_raw_pages: Final = msgspec.json.Decoder(Page[Raw])
_stubs: Final = msgspec.json.Decoder(Stub)


class Codec(Generic[T]):
    """Decodes the pages of a resource; `events` decodes an event of its watch. Of an object of more
    than `limit` bytes, only the fields of its `outline` are decoded, and its size becomes
    `unread_bytes`.
    """

    def __init__(
        self, kind: type[T], outline: type[Struct] = Struct, limit: int = LINE_BYTES
    ) -> None:
        # mypy does not allow a variable as a type; msgspec does.
        page: type[Page[T]] = Page[kind]  # type: ignore[valid-type]
        event: type[Event[T]] = Event[kind]  # type: ignore[valid-type]
        outlined: type[Event[Any]] = Event[outline]  # type: ignore[valid-type]
        self.limit = limit
        self._kind = kind
        self._item = msgspec.json.Decoder(kind)
        self._page = msgspec.json.Decoder(page)
        self.events = msgspec.json.Decoder(event)
        self._outline = msgspec.json.Decoder(outline)
        self._outlined_event = msgspec.json.Decoder(outlined)

    def outlined(self, line: bytes) -> Event[T]:
        """Return an event with an outline. Raises an error of UNREADABLE."""
        event = self._outlined_event.decode(line)
        return Event(event.type, self._with_size(event.object, len(line)))

    def page(self, body: bytes) -> tuple[ListMeta, list[T]]:
        """Return a page, without the objects that cannot be decoded. Raises ApiError."""
        try:
            if len(body) > self.limit:
                return self._decode_readable_items(body)
            try:
                page = self._page.decode(body)
            # One object of a wrong type must not hide all others of its page.
            except msgspec.ValidationError:
                return self._decode_readable_items(body)
        except UNREADABLE as error:
            raise build_decode_error("list", body) from error
        return page.metadata, page.items or []

    def _decode_readable_items(self, body: bytes) -> tuple[ListMeta, list[T]]:
        page, items = _raw_pages.decode(body), list[T]()
        for raw in page.items or ():
            try:
                items.append(self._decode_item(raw))
            except msgspec.ValidationError:
                page.metadata.unreadable.append(_uid_of(raw))
        return page.metadata, items

    def _decode_item(self, raw: Raw) -> T:
        size = len(memoryview(raw))
        if size <= self.limit:
            return self._item.decode(raw)
        return self._with_size(self._outline.decode(raw), size)

    def _with_size(self, outline: Struct, size: int) -> T:
        read = msgspec.to_builtins(outline)
        return msgspec.convert({**read, "unread_bytes": size}, self._kind)


def _uid_of(raw: Raw) -> str:
    """Return the uid of an object that cannot be decoded; empty if it has none."""
    try:
        return _stubs.decode(raw).metadata.uid
    except msgspec.ValidationError:
        return ""


class Resource(Struct, Generic[T], frozen=True):
    """A resource to list or watch: its plural, namespace, path and codec, and the selectors of the
    query. The namespace is empty for all of them. With `metadata_only`, the API server sends only
    metadata.
    """

    plural: str
    namespace: str
    path: str
    codec: Codec[T]
    query: Query = ()
    metadata_only: bool = False

    @property
    def name(self) -> str:
        return f"{self.plural} in {self.namespace or 'all namespaces'}"


def path_of(root: str, namespace: str, plural: str) -> str:
    """Return the path of a collection in a namespace, or in all if it is empty."""
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{within}/{plural}"


PAGES_MAX: Final = 10_000
"""Of a list. Kubernetes supports 150,000 pods, and pages have hundreds of objects."""


async def pages(
    api: Api, resource: Resource[T], deadline: float, limit: int = _PAGE_ITEMS
) -> AsyncIterator[tuple[ListMeta, list[T]]]:
    """Yield the pages of a list, each of up to `limit` objects. After a page that is too large, the
    next ones have half as many objects. Raises ApiError, also for a list of more than PAGES_MAX
    pages.
    """
    continuation: Query = ()
    for _ in range(PAGES_MAX):
        query = [*resource.query, ("limit", str(limit)), *continuation]
        try:
            accept = LIST_METADATA if resource.metadata_only else JSON
            body = await api.get(resource.path, query, deadline, accept)
        except ApiError as error:
            if error.reason != "large" or limit == 1:
                raise
            limit //= 2
            continue
        meta, items = resource.codec.page(body)
        yield meta, items
        if not meta.token:
            return
        continuation = [("continue", meta.token)]
    raise ApiError("large", f"a list has more than {PAGES_MAX} pages: is a proxy in between?")


async def read_list(
    api: Api, resource: Resource[T], deadline: float, *, partial: bool = False
) -> tuple[list[T], str]:
    """Return the objects of a list, and its resourceVersion. Raises ApiError; without `partial`,
    also for an object that cannot be decoded, which is omitted otherwise.
    """
    objects: list[T] = []
    version = ""
    async for meta, items in pages(api, resource, deadline):
        if not partial:
            check_complete(meta)
        # All pages of a list are of the version of the first.
        version = version or meta.resource_version
        objects += items
    return objects, version


def check_complete(meta: ListMeta) -> None:
    """Raise ApiError for a page with objects that cannot be decoded."""
    if meta.unreadable:
        message = f"{len(meta.unreadable)} objects of a list are not of the expected shape"
        raise ApiError("garbled", message)


def build_decode_error(what: str, data: bytes) -> ApiError:
    """Return the error for a response that cannot be decoded."""
    message = (
        f"the API server sent {len(data)} bytes in a {what} that are not what it promises: is a "
        "proxy in between?"
    )
    return ApiError("garbled", message)
