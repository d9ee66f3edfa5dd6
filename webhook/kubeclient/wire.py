"""Lists of any resource, and the decoders of their pages and of the events of a watch."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field, structs

from webhook.api.objects import Outline
from webhook.kubeclient.client import (
    JSON,
    LINE_BYTES,
    LIST_METADATA,
    UNREADABLE,
    Api,
    Query,
    decode_nested,
)
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import PAGE_ITEMS


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

PAGE_BYTES: Final = 1 << 21
"""Limit of a page of several objects, which is split into objects in one call of 4 ms. Objects of
the API server have up to 1.5 MiB.
"""
PORTION_BYTES: Final = 1 << 16
"""Objects of a page that are decoded and handled at once. Reviews wait for them."""
LIST_BYTES_MAX: Final = 1 << 27
"""Limit of a list whose objects are returned together: 10,000 pods of 12 KiB."""


class ListMeta(Struct, rename="camel"):
    """`metadata` of a page. `token` is set if there are more pages."""

    resource_version: str = ""
    token: str | None = field(default=None, name="continue")
    unreadable: list[str] = []
    """The uids of items of a portion that were omitted, because they could not be decoded."""
    portion_bytes: int = 0


class ListPage(Struct, Generic[K]):
    """A page of a list."""

    metadata: ListMeta
    items: list[K] | None = None


class WatchEvent(Struct, Generic[K]):
    """An event of a watch."""

    type: str
    object: K


class _StubMeta(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class Stub(Struct):
    """The fields that every object has."""

    metadata: _StubMeta = field(default_factory=_StubMeta)


_raw_pages: Final = msgspec.json.Decoder(ListPage[Raw])
_stubs: Final = msgspec.json.Decoder(Stub)
_OBJECT: Final = b'"object":'
"""Before the object of an event, which is its last field."""


class Codec(Generic[T]):
    """Decodes the objects of pages, and with `events` an event of a watch. Of an object of more
    than `limit` bytes, only the fields of its `outline` are decoded, and its size becomes
    `unread_bytes`; without an outline, it counts as one that cannot be decoded.
    """

    def __init__(
        self, kind: type[T], outline: type[Outline] | None = None, limit: int = LINE_BYTES
    ) -> None:
        # mypy does not allow a variable as a type; msgspec does.
        event: type[WatchEvent[T]] = WatchEvent[kind]  # type: ignore[valid-type]
        outlined: type[WatchEvent[Any]] = WatchEvent[outline or Stub]  # type: ignore[assignment, misc]
        self.limit = limit
        self.kind = kind
        self._item = msgspec.json.Decoder(kind)
        self.events = msgspec.json.Decoder(event)
        self._outline = msgspec.json.Decoder[Any](outline or Stub)
        self._outlined_event = msgspec.json.Decoder(outlined)

    def large_event(self, line: bytes) -> WatchEvent[Any]:
        """Return an event whose line has more than `limit` bytes. Raises an error of UNREADABLE."""
        size = len(line) - line.find(_OBJECT) - len(_OBJECT) - 1
        if size <= self.limit:
            return self.events.decode(line)
        event = self._outlined_event.decode(line)
        return WatchEvent(event.type, self._complete(event.object, size))

    def portions(self, body: bytes) -> Iterator[tuple[ListMeta, list[T]]]:
        """Yield the objects of a page, PORTION_BYTES at a time, without those that cannot be
        decoded. Raises ApiError.
        """
        try:
            page = decode_nested(_raw_pages.decode, body)
            meta, items = page.metadata, list[T]()
            for raw in page.items or ():
                if meta.portion_bytes >= PORTION_BYTES:
                    yield meta, items
                    meta, items = structs.replace(meta, unreadable=[], portion_bytes=0), []
                item = decode_nested(self._decode_item, bytes(raw))
                if isinstance(item, Stub):
                    meta.unreadable.append(item.metadata.uid)
                else:
                    items.append(item)
                meta.portion_bytes += len(memoryview(raw))
        except UNREADABLE as error:
            raise build_decode_error("list", body) from error
        yield meta, items

    def _decode_item(self, raw: bytes) -> T | Stub:
        size = len(raw)
        try:
            if size <= self.limit:
                return self._item.decode(raw)
            return self._complete(self._outline.decode(raw), size)
        except msgspec.ValidationError:
            try:
                return _stubs.decode(raw)
            except msgspec.ValidationError:
                return Stub()

    def _complete(self, outline: Outline | Stub, size: int) -> T | Stub:
        if isinstance(outline, Stub):
            return outline
        return msgspec.convert({**outline.values(), "unread_bytes": size}, self.kind)


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
    api: Api, resource: Resource[T], deadline: float, limit: int = PAGE_ITEMS
) -> AsyncGenerator[tuple[ListMeta, list[T]]]:
    """Yield the objects of a list in portions, from pages of up to `limit` objects. A page that is
    too large is halved, and doubled again after small ones: anyone can create objects that fill a
    page. Between two portions, other tasks run. Raises ApiError, also for a list of more than
    PAGES_MAX pages. Callers use `aclosing`: their errors leave the list before its end.
    """
    continuation: Query = ()
    number = limit
    accept = LIST_METADATA if resource.metadata_only else JSON
    for _ in range(PAGES_MAX):
        query = [*resource.query, ("limit", str(number)), *continuation]
        try:
            bytes_max = PAGE_BYTES if number > 1 else LINE_BYTES
            body = await api.get(
                resource.path, query, deadline=deadline, accept=accept, bytes_max=bytes_max
            )
        except ApiError as error:
            if error.reason != "large" or number == 1:
                raise
            number //= 2
            continue
        if len(body) < PAGE_BYTES // 4:
            number = min(2 * number, limit)
        for meta, items in resource.codec.portions(body):
            yield meta, items
            await asyncio.sleep(0)
        if not meta.token:
            return
        continuation = [("continue", meta.token)]
    raise ApiError("large", f"a list has more than {PAGES_MAX} pages: is a proxy in between?")


async def read_list(
    api: Api, resource: Resource[T], deadline: float, *, partial: bool = False
) -> tuple[list[T], str]:
    """Return the objects of a list, read within `deadline` seconds, and its resourceVersion. Raises
    ApiError, also for a list of more than LIST_BYTES_MAX; without `partial`, also for an object
    that cannot be decoded, which is omitted otherwise.
    """
    objects: list[T] = []
    version, size = "", 0
    try:
        async with (
            api.timeout(deadline),
            aclosing(pages(api, resource, deadline)) as portions,
        ):
            async for meta, items in portions:
                if not partial:
                    check_complete(meta)
                version = version or meta.resource_version
                objects += items
                size += meta.portion_bytes
                if size > LIST_BYTES_MAX:
                    message = f"a list has more than {LIST_BYTES_MAX >> 20} MiB"
                    raise ApiError("large", message)
    except TimeoutError as error:
        raise ApiError("timeout", f"a list is not complete after {deadline:g} s") from error
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
