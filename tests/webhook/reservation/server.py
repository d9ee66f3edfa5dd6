"""A simulated API server: pods, RayClusters and Leases with versions, and their history."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import msgspec

from webhook.api import names
from webhook.groups.identity import GroupKey, HostIdentity, ShardKey
from webhook.kubeclient.client import Api, Body, Query
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.reservation_leases import LeaseStore

Object = dict[str, Any]
CLUSTER_UID = "uid"
EPOCH = 1_764_000_000


@dataclass(eq=False, kw_only=True)
class Admitted:
    """A pod or a RayCluster, from its admission on."""

    uid: str
    began: float
    stored: bool = False
    over: bool = False

    @property
    def underway(self) -> bool:
        """Whether it may yet be stored."""
        return not self.stored and not self.over


@dataclass(eq=False, kw_only=True)
class Pod(Admitted):
    """A pod."""

    key: GroupKey
    claimed: bool
    identity: HostIdentity | None = None
    holder: str = ""
    attempt: int = 0
    unlabelled: bool = False
    moved: int = 0
    """By how much somebody raised the replica index in its labels."""
    terminating: bool = False
    gone: bool = False

    @property
    def live(self) -> bool:
        return self.stored and not self.terminating and not self.gone

    def document(self, version: int) -> Object:
        labels = {names.LABEL_CLUSTER: "ray", names.LABEL_GROUP: self.key.group}
        if self.identity is not None and not self.unlabelled:
            labels[names.LABEL_REPLICA_INDEX] = str(self.identity.replica + self.moved)
            if self.identity.name:
                moved = f"-moved{self.moved}" if self.moved else ""
                labels[names.LABEL_REPLICA_NAME] = self.identity.name + moved
                labels[names.LABEL_HOST_INDEX] = str(self.identity.host)
        meta: Object = {
            "uid": self.uid, "name": self.uid, "namespace": self.key.namespace,
            "resourceVersion": str(version), "labels": labels,
            "ownerReferences": [{
                "name": "ray", "uid": self.key.cluster_uid, "controller": True}]}  # fmt: skip
        if self.holder:
            meta["annotations"] = {names.ANNOTATION_HOLDER: self.holder}
        if self.terminating:
            meta["deletionTimestamp"] = "2024-11-21T00:00:00Z"
        return {"metadata": meta}


@dataclass(eq=False, kw_only=True)
class Ray(Admitted):
    """A RayCluster of a shard group. Its name may have to be generated."""

    key: ShardKey
    name: str
    given: int | None = None
    index: int | None = None

    def document(self, version: int) -> Object:
        annotations = {names.ANNOTATION_SHARD_GROUP: self.key.group}
        annotations[names.ANNOTATION_SHARD_INDEX] = str(self.index)
        return {"metadata": {
            "uid": self.uid, "name": self.name, "namespace": self.key.namespace,
            "resourceVersion": str(version), "annotations": annotations}}  # fmt: skip


T = TypeVar("T", bound=Pod | Ray)


class Stored(dict[str, T]):
    """The stored objects of a kind by uid, their JSON, and their history, which watches receive:
    version, the uid of an object that was deleted, and the object otherwise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, Object] = {}
        self.history: list[tuple[int, str, bytes]] = []


@dataclass
class Server:
    """What is stored, which is the truth."""

    version: int = 10
    pods: Stored[Pod] = field(default_factory=Stored)
    rays: Stored[Ray] = field(default_factory=Stored)
    leases: dict[str, Object] = field(default_factory=dict)
    uids: int = 0
    conditional: ClassVar[bool] = True

    def put(self, stored: Stored[T], item: T, *, gone: bool = False) -> None:
        """Store a change of an object, or its deletion."""
        self.version += 1
        if gone:
            del stored[item.uid], stored.bodies[item.uid]
            stored.history.append((self.version, item.uid, b""))
        else:
            body = stored.bodies[item.uid] = item.document(self.version)
            stored[item.uid] = item
            stored.history.append((self.version, "", msgspec.json.encode(body)))

    # Requests

    def get(self, path: str, query: dict[str, str]) -> bytes:
        """Answer a GET: one Lease, or a list."""
        kind = path.rpartition("/")[2]
        if "/leases/" in path:
            if kind not in self.leases:
                raise ApiError("missing", "the API server answered 404")
            return msgspec.json.encode(self.leases[kind])
        if kind == "leases":
            label = query["labelSelector"].partition("=")[0]
            found = [each for each in self.leases.values() if label in each["metadata"]["labels"]]
        elif kind == "pods":
            group = query["labelSelector"].rpartition("=")[2]
            found = [
                body for uid, body in self.pods.bodies.items() if self.pods[uid].key.group == group
            ]
        else:
            ray = {"metadata": {"name": "ray", "namespace": "ns", "uid": CLUSTER_UID}}
            found = [*self.rays.bodies.values(), ray]
        meta = {"resourceVersion": str(self.version)}
        return msgspec.json.encode({"metadata": meta, "items": found})

    def create(self, body: Object) -> bytes:
        name = body["metadata"]["name"]
        if name in self.leases:
            raise ApiError("conflict", "the API server answered 409")
        self.uids += 1
        return self._write({**body, "metadata": {**body["metadata"], "uid": f"lease-{self.uids}"}})

    def replace(self, name: str, body: Object) -> bytes:
        """Answer a PUT of a Lease, which creates one where neither uid nor version are named."""
        known, meta = self.leases.get(name), body["metadata"]
        if known is None and ("uid" in meta):
            raise ApiError("conflict", "the API server answered 409")
        if known is None:
            return self.create(body)
        same = known["metadata"]["resourceVersion"] == meta["resourceVersion"]
        if "uid" in meta:
            same &= known["metadata"]["uid"] == meta["uid"]
        if not same and self.conditional:
            raise ApiError("conflict", "the API server answered 409")
        return self._write({**body, "metadata": {**meta, "uid": known["metadata"]["uid"]}})

    def delete(self, name: str, uid: str, version: str) -> bytes:
        known = self.leases.get(name)
        if known is None:
            raise ApiError("missing", "the API server answered 404")
        meta = known["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (uid, version):
            raise ApiError("conflict", "the API server answered 409")
        self.version += 1
        del self.leases[name]
        return b"{}"

    def _write(self, lease: Object) -> bytes:
        self.version += 1
        meta = {**lease["metadata"], "resourceVersion": str(self.version)}
        stored = self.leases[meta["name"]] = {**lease, "metadata": meta}
        return msgspec.json.encode(stored)


class ServerApi(Api):
    """The client of a simulated API server. `ask` sends a request, and returns the response."""

    async def ask(self, carry_out: Callable[[Server], bytes], seconds: float) -> bytes:
        raise NotImplementedError

    async def get(
        self,
        path: str,
        query: Query = (),
        deadline: float = 0.0,
        accept: str = "",
        bytes_max: int = 0,
    ) -> bytes:
        del accept, bytes_max
        return await self.ask(lambda server: server.get(path, dict(query)), deadline)

    async def create(
        self, path: str, body: Body, deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del path, query
        return await self.ask(lambda server: server.create(dict(body)), deadline)

    async def replace(
        self, path: str, body: Body, deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del query
        name = path.rpartition("/")[2]
        return await self.ask(lambda server: server.replace(name, dict(body)), deadline)

    async def delete(self, path: str, uid: str, version: str, deadline: float = 0.0) -> None:
        name = path.rpartition("/")[2]
        await self.ask(lambda server: server.delete(name, uid, version), deadline)


class Direct(ServerApi):
    """An API server that answers at once."""

    def __init__(self) -> None:
        self.server = Server()

    async def ask(self, carry_out: Callable[[Server], bytes], seconds: float) -> bytes:
        del seconds
        return carry_out(self.server)

    def entries(self, group: str) -> dict[tuple[int, int], str]:
        found: dict[tuple[int, int], str] = {}
        for lease in self.server.leases.values():
            text = lease["metadata"]["annotations"][names.ANNOTATION_RESERVATIONS]
            content = msgspec.json.decode(text)
            if content["group"] == group:
                for index, entry in content["entries"].items():
                    for host, holder in entry["hosts"].items():
                        found[int(index), int(host)] = holder
        return found


def lease_store(api: Direct) -> LeaseStore:
    return LeaseStore(api, "system")
