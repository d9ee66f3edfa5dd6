"""Reservation tables in Leases: one for each block of a worker group, and one for each shard
group.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct, field

from webhook.api import names
from webhook.api.objects import OBJECT_BYTES_MAX, Bare, ObjectMeta, RayClusterOutline
from webhook.api.review import FORBIDDEN, Cause, Denied, NotNow
from webhook.groups.annotations import SHARD_GROUP
from webhook.groups.identity import GroupKey
from webhook.kubeclient.client import DRY_RUN, Api, decode_response
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff
from webhook.kubeclient.wire import Codec, Resource, check_complete, pages, path_of
from webhook.reservation.allocation import BLOCK, VACANT_SECONDS
from webhook.reservation.stores import Conflict, Stored, Table, TableKey, UnknownOutcome

_log: Final = logging.getLogger("webhook.kubeclient")

BYTES_MAX: Final = 200 * 1024
"""Maximum of a table. The API server stores at most 256 KiB of annotations."""
CLEANUP_SECONDS: Final = 600.0
_FIRST_CLEANUP_SECONDS: Final = 60.0
_TABLE_SECONDS: Final = 2.0
"""Deadline of a read or write of a table: both end in half of the API server's timeout."""
_LIST_SECONDS: Final = 30.0
_PAGE_LEASES: Final = 100
_NOT_SWEPT: Final = "reservations: those of %s cannot be swept: %s"
_PREFIX: Final = "ray-webhook-reservations-"
_FINAL: Final = frozenset({"forbidden", "invalid", "unauthorized", "missing", "status"})
"""Failures that changed nothing, and for which a retry would fail too."""


class _Content(Struct):
    """The content of the annotation: names for readers, and the entries. `uid` is that of the
    RayCluster, empty for a shard group.
    """

    namespace: str
    cluster: str
    uid: str
    group: str
    block: int
    entries: Table


class _ListedClusters(Struct):
    """The uids and shard groups of the RayClusters of a namespace, listed at the server's time
    `begun`.
    """

    begun: float
    uids: set[str | None] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    def use(self, content: _Content) -> bool:
        """Return whether a table is of one of them, or of a shard group that may get one."""
        if content.uid:
            return content.uid in self.uids
        # The index is assigned before its RayCluster is stored, so a new group has none yet.
        newest = max((entry.made for entry in content.entries.values()), default=0.0)
        return content.group in self.groups or newest + VACANT_SECONDS > self.begun


_LEASES: Final = Codec(Bare)
_RAYCLUSTERS: Final = Codec(Bare, RayClusterOutline, OBJECT_BYTES_MAX)
_contents: Final = msgspec.json.Decoder(_Content)
_encode: Final = msgspec.json.Encoder().encode


_State = tuple[str | None, ...]
"""Name, uid and version of a Lease."""


class LeaseStore:
    """Tables in Leases. While running, deletes those of RayClusters that do not exist."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.accepted = False
        """Whether the API server has accepted the dry run of a new Lease."""
        self._unreadable: set[_State] = set()
        """Leases of this webhook that the last resync could not decode.
        Such a table gets no new entries, and the pods of its entries appear before the next resync,
        or never.
        """
        self._api = api
        self._namespace = namespace
        self._path = path_of("/apis/coordination.k8s.io/v1", namespace, "leases")

    async def get(self, key: TableKey) -> Stored | None:
        """Return the current table, or None. Raises UnknownOutcome and NotNow."""
        try:
            lease = await self._api.find(f"{self._path}/{name_of(key)}", Bare, _TABLE_SECONDS)
        except ApiError as error:
            raise _build_lease_error("read", key, error) from error
        if lease is None:
            return None
        meta, content = lease.metadata, _content(lease.metadata)
        if content is None:
            raise NotNow(_describe_invalid_lease(meta))
        return Stored(content.entries, meta.uid or "", meta.resource_version)

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        """Replace the known table, or create one. Raises Conflict, UnknownOutcome, NotNow, and
        Denied for a table that is too large.
        """
        group, name = key.group, name_of(key)
        uid = group.cluster_uid if isinstance(group, GroupKey) else ""
        content = _Content(
            group.namespace, cluster, uid=uid, group=group.group, block=key.block, entries=table
        )
        annotation = _encode(content).decode()
        if len(annotation) > BYTES_MAX:
            raise Denied(Cause(FORBIDDEN, _too_large(key, len(annotation)), ""))
        meta: dict[str, object] = {
            "labels": {names.LABEL_RESERVATIONS: "true"},
            "annotations": {names.ANNOTATION_RESERVATIONS: annotation},
        }
        if replaces := known is not None and bool(known.uid):
            # With a version alone, a PUT creates a Lease that was deleted in the meantime.
            meta |= {"uid": known.uid, "resourceVersion": known.version}
        lease = self._lease(name, meta)
        try:
            if replaces:
                body = await self._api.replace(f"{self._path}/{name}", lease, _TABLE_SECONDS)
            else:
                body = await self._api.create(self._path, lease, _TABLE_SECONDS)
            stored = decode_response(body, Bare).metadata
        except ApiError as error:
            # A Lease that was deleted by hand: reserve again from what is known, instead of a
            # failure.
            if error.reason == "conflict" or (replaces and error.reason == "missing"):
                raise Conflict from error
            raise _build_lease_error("written", key, error) from error
        return Stored(table, stored.uid or "", stored.resource_version)

    async def run(self) -> None:
        """Check that Leases can be created, then resync every ten minutes, until cancelled."""
        backoff, last_problem = Backoff(0.25, 30.0, random.random), ""
        # Ready only when Leases can be written: otherwise every pod without an identity gets 503.
        while problem := await self._check_lease_creation():
            if problem != last_problem:
                _log.warning("reservations: %s", problem)
            last_problem = problem
            await asyncio.sleep(backoff.next())
        self.accepted = True
        pause = _FIRST_CLEANUP_SECONDS
        while True:
            # Random delays spread the resyncs of processes that start together.
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311
            pause = CLEANUP_SECONDS
            try:
                await self.clean_up()
            except ApiError as error:
                _log.warning("reservations: Leases cannot be swept: %s", error)

    async def clean_up(self) -> None:
        """Delete the tables of RayClusters that do not exist, those that two resyncs could not
        decode and that did not change in between. Raises ApiError.

        All pages are of one state, and a RayCluster is created before its tables. So the
        RayClusters of a namespace that are listed after the first page include those of every page.
        """
        unreadable: set[_State] = set()
        clusters: dict[str, _ListedClusters | None] = {}
        async with aclosing(self._pages(names.LABEL_RESERVATIONS)) as lease_pages:
            async for page in lease_pages:
                tables = await self._read_tables(page, unreadable)
                for namespace, listed in tables.items():
                    if namespace not in clusters:
                        clusters[namespace] = await self._list_clusters(namespace)
                    if (namespace_clusters := clusters[namespace]) is not None:
                        await self._clean_up(namespace, listed, namespace_clusters)
        self._unreadable = unreadable

    async def _read_tables(
        self, page: list[ObjectMeta], unreadable: set[_State]
    ) -> dict[str, list[tuple[ObjectMeta, _Content]]]:
        """Return the tables of a page by namespace. Those that cannot be decoded are added to
        `unreadable`, or deleted if the last resync could not decode them either.
        """
        tables: dict[str, list[tuple[ObjectMeta, _Content]]] = {}
        for meta in page:
            content, state = _content(meta), (meta.name, meta.uid, meta.resource_version)
            if content is not None:
                tables.setdefault(content.namespace, []).append((meta, content))
            elif state in self._unreadable:
                _log.warning("reservations: deletes Lease %s, which is unreadable", meta.name)
                await self._delete(meta)
            # The label alone is no proof: others may put it on a Lease of theirs.
            elif (meta.name or "").startswith(_PREFIX):
                unreadable.add(state)
        return tables

    async def _clean_up(
        self, namespace: str, tables: list[tuple[ObjectMeta, _Content]], clusters: _ListedClusters
    ) -> None:
        try:
            for meta, content in tables:
                if not clusters.use(content):
                    await self._delete(meta)
        except ApiError as error:  # other namespaces are still resynced
            _log.warning(_NOT_SWEPT, namespace, error)

    async def _list_clusters(self, namespace: str) -> _ListedClusters | None:
        """Return the RayClusters of a namespace, or None if they cannot be listed."""
        listed = _ListedClusters(self._api.server_time.now())
        path = path_of(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")
        rays = Resource("rayclusters", namespace, path, _RAYCLUSTERS, metadata_only=True)
        try:
            async with aclosing(pages(self._api, rays, _LIST_SECONDS)) as portions:
                async for meta, page in portions:
                    check_complete(meta)
                    for cluster in page:
                        listed.uids.add(cluster.metadata.uid)
                        listed.groups.add(SHARD_GROUP.read(cluster.metadata.annotations or {}))
        except ApiError as error:
            _log.warning(_NOT_SWEPT, namespace, error)
            return None
        return listed

    async def _pages(self, label: str) -> AsyncGenerator[list[ObjectMeta]]:
        """Yield the pages of Leases with a label; a table has up to BYTES_MAX bytes."""
        selector = [("labelSelector", f"{label}=true")]
        resource = Resource(
            "leases", self._namespace, path=self._path, codec=_LEASES, query=selector
        )
        lease_pages = pages(self._api, resource, _LIST_SECONDS, _PAGE_LEASES)
        async with aclosing(lease_pages) as portions:
            async for meta, page in portions:
                check_complete(meta)
                yield [lease.metadata for lease in page]

    async def _delete(self, meta: ObjectMeta) -> None:
        try:
            path = f"{self._path}/{meta.name}"
            # At the version that was read: a table that was written since is in use.
            await self._api.delete(path, meta.uid or "", meta.resource_version, _TABLE_SECONDS)
        except ApiError as error:
            if error.reason not in {"conflict", "missing"}:
                raise

    async def _check_lease_creation(self) -> str:
        """Create a Lease in a dry run, and return why that is not possible."""
        lease = self._lease(f"{_PREFIX}dry-run", {})
        try:
            await self._api.create(self._path, lease, _TABLE_SECONDS, DRY_RUN)
        except ApiError as error:
            return f"Leases cannot be created in namespace {self._namespace}: {error}"
        return ""

    def _lease(self, name: str, meta: Mapping[str, object]) -> Mapping[str, object]:
        named = {"namespace": self._namespace, "name": name, **meta}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": named, "spec": {}}


def name_of(key: TableKey) -> str:
    """Return the name of the Lease of a table."""
    group = key.group
    fields = msgspec.structs.astuple(group) if isinstance(group, GroupKey) else group
    joined_fields = "\0".join(map(str, (*fields, key.block)))
    return (
        _PREFIX + blake2b(joined_fields.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    )


def check_content(lease: object) -> str:
    """Return why a Lease in JSON cannot be used; empty if it can."""
    meta = msgspec.convert(lease, Bare).metadata
    return "" if _content(meta) is not None else _describe_invalid_lease(meta)


def _describe_invalid_lease(meta: ObjectMeta) -> str:
    return f"it has no valid annotation {names.ANNOTATION_RESERVATIONS}: delete Lease {meta.name}"


def _content(meta: ObjectMeta) -> _Content | None:
    """Return the content of a Lease, or None if it is not of this webhook."""
    try:
        return _contents.decode((meta.annotations or {}).get(names.ANNOTATION_RESERVATIONS, ""))
    except (msgspec.DecodeError, UnicodeError):
        return None


def _build_lease_error(done: str, key: TableKey, error: ApiError) -> NotNow | UnknownOutcome:
    message = f"the reservations of group {key.group.group} cannot be {done}: {error}"
    return (NotNow if error.reason in _FINAL else UnknownOutcome)(message)


def _too_large(key: TableKey, size: int) -> str:
    group = key.group
    scope, then = f"of shard group {group.group}", "begin another shard group"
    if isinstance(group, GroupKey):
        scope, then = f"of {BLOCK} replicas of group {group.group}", "lower numOfHosts"
    return (
        f"the reservations {scope} would have {size} bytes, and a Lease has at most {BYTES_MAX}: "
        f"{then}"
    )
