"""A fake API server over real sockets: lists, pages, watches, and named failures."""

import asyncio
import itertools
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import jsonpatch
import msgspec

from tests.harness.scheduling_rules import (
    COMPUTE_DOMAINS,
    PODGROUPS,
    WORKLOADS,
    Refusal,
    admitted,
    check_preconditions,
    patched,
)
from webhook.api import names

Object = dict[str, Any]

PODS: Final = "pods"
RAYCLUSTERS: Final = "rayclusters"
LEASES: Final = "leases"
CRDS: Final = "customresourcedefinitions"
EVENTS: Final = "events"
SERVICES: Final = "services"
NODES: Final = "nodes"
NAMESPACES: Final = "namespaces"
QUOTAS: Final = "resourcequotas"
LIMIT_RANGES: Final = "limitranges"
CONFIGURATIONS: Final = "mutatingwebhookconfigurations"
WEBHOOKS: Final = CONFIGURATIONS
OTHERS: Final = (EVENTS, SERVICES, NODES, NAMESPACES, CONFIGURATIONS, QUOTAS, LIMIT_RANGES)
RAYJOBS: Final = "rayjobs"
RAYSERVICES: Final = "rayservices"
_RESOURCES: Final = (PODS, RAYCLUSTERS, RAYJOBS, RAYSERVICES, LEASES, CRDS, *OTHERS)


class Fault(Enum):
    """How one request goes wrong."""

    RESET = auto()  # the connection is reset instead of an answer
    SILENCE = auto()  # half-open: a list is never answered; a watch opens, and never says anything
    UNAUTHORIZED = auto()
    FORBIDDEN = auto()
    EXPIRED = auto()
    THROTTLED = auto()
    BROKEN = auto()
    EXPIRED_EVENT = auto()  # a watch that opens, and says 410 as an event
    STRANGE_EVENT = auto()  # a watch that says an error without a Status
    GARBAGE = auto()  # a list or a line that is not JSON
    TRUNCATED = auto()  # a watch that ends properly within a line
    CUT = auto()  # a body whose end never comes: the connection is closed within a chunk
    BRIEF = auto()  # a watch that ends properly as soon as all events are sent


@dataclass
class Request:
    """One request, as it came."""

    verb: str
    resource: str
    query: dict[str, str]
    authorization: str
    at: float
    name: str = ""


@dataclass
class Change:
    """One entry of the history."""

    version: int
    resource: str
    kind: str
    object: Object


_TURNS = 5


@dataclass
class FakeApi:
    """The server. Change what it stores with `put` and `delete`; plan its faults with `plan`."""

    page_limit: int = 10_000
    list_delay: float = 0.0
    most_at_once: int = 0
    """The most lists that were answered at one time."""
    _lists: int = 0
    continue_expires: int = 0
    """How many continue tokens are answered with 410."""
    accepts: str = ""
    """The only Authorization that is let in, when there is one."""
    pieces: int = 2
    """Chunks that a line of a watch is sent in."""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    minor: str = "37"
    """Of the release of Kubernetes that it says it is; empty: it does not say."""
    served: set[str] = field(default_factory=set)
    """Versions of scheduling.k8s.io and resource.nvidia.com."""
    topology_aware: bool = False
    """It keeps the topology constraints of PodGroups."""
    default_priority: str = ""
    """The PriorityClass that PodGroups get which name none."""
    protected: set[str] = field(default_factory=set)
    """PodGroups that a finalizer keeps after they were deleted, until it is taken off."""
    definition: Object | None = None
    """The CustomResourceDefinition of RayClusters."""
    whole_definitions: int = 0
    """How often all of it was read, and not only its metadata."""
    before: Callable[[Request], int] = lambda _: 0
    """Gets each request before its answer, may change what is stored, and returns a status or 0."""

    def __post_init__(self) -> None:
        self.port = 0
        self.version = 100
        self._objects: dict[str, dict[tuple[str, str], Object]] = {
            resource: {} for resource in (*_RESOURCES, PODGROUPS, WORKLOADS, COMPUTE_DOMAINS)
        }
        self._history: list[Change] = []
        self._compacted = 0
        self._muted: list[Change] | None = None
        self._plans: dict[str, deque[Fault]] = {"list": deque(), "watch": deque()}
        self._always: dict[str, Fault | None] = {"list": None, "watch": None}
        self._queues: dict[asyncio.Queue[Change], str] = {}
        self._pages: dict[str, tuple[int, list[Object]]] = {}
        self._tokens = itertools.count()
        self._uids = itertools.count()
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self._tls: ssl.SSLContext | None = None

    # What it stores

    def put(self, resource: str, obj: Object) -> Object:
        stored = deepcopy(obj)
        meta = stored["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        old = self._objects[resource].get(key)
        meta.setdefault("uid", old["metadata"]["uid"] if old else f"uid-{next(self._uids)}")
        self._objects[resource][key] = self._publish(
            "MODIFIED" if old else "ADDED", resource, stored
        )
        return stored

    def delete(self, resource: str, name: str, namespace: str = "default") -> None:
        gone = deepcopy(self._objects[resource].pop((namespace, name)))
        self._publish("DELETED", resource, gone)

    def objects(self, resource: str) -> dict[str, Object]:
        return {name: obj for (_, name), obj in self._objects[resource].items()}

    def rewind(self, version: int) -> None:
        """Set the versions back, as a restore of etcd does; objects stay."""
        self.version = version
        self._history = []
        for objects in self._objects.values():
            for key, obj in objects.items():
                self.version += 1
                objects[key] = {
                    **obj,
                    "metadata": {**obj["metadata"], "resourceVersion": str(self.version)},
                }
        self._compacted = self.version

    def compact(self) -> None:
        """Forget the history: a watch from before now is answered with 410."""
        self._history = []
        self._compacted = self.version

    def bookmark(self) -> None:
        """Tell every watch how far it is."""
        for queue, resource in self._queues.items():
            queue.put_nowait(
                Change(
                    self.version,
                    resource,
                    "BOOKMARK",
                    {"metadata": {"resourceVersion": str(self.version)}},
                )
            )

    def load(self, resource: str, objects: Iterable[Object]) -> None:
        """Store many objects as they are, before anybody watches. They may share parts."""
        for obj in objects:
            self.version += 1
            meta = obj["metadata"]
            meta["resourceVersion"] = str(self.version)
            self._objects[resource][meta.get("namespace", ""), meta["name"]] = obj
        self._compacted = self.version

    def mute(self) -> None:
        """Keep from the watches what changes from now on."""
        self._muted = []

    def unmute(self) -> None:
        """Send the watches the events that they lack."""
        muted, self._muted = self._muted or [], None
        for change, queue in itertools.product(muted, self._queues):
            queue.put_nowait(change)

    def _publish(self, kind: str, resource: str, obj: Object) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, resource, kind, obj)
        self._history.append(change)
        if self._muted is not None:
            self._muted.append(change)
            return obj
        for queue in self._queues:
            queue.put_nowait(change)
        return obj

    # How it misbehaves

    def plan(self, verb: str, *faults: Fault) -> None:
        """Let the next requests for pods of a verb (`list` or `watch`) go wrong, one fault each."""
        self._plans[verb].extend(faults)

    def always(self, verb: str, fault: Fault | None) -> None:
        """Let every request for pods of a verb go wrong from now on, or none."""
        self._always[verb] = fault

    def count(self, verb: str, resource: str = PODS) -> int:
        return sum(
            request.verb == verb and request.resource == resource for request in self.requests
        )

    def drop_connections(self) -> None:
        for task in self._handlers:
            task.cancel()

    @property
    def watching(self) -> int:
        return len(self._queues)

    # How it serves

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["FakeApi"]:
        self._tls = tls
        await self.up()
        try:
            yield self
        finally:
            await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for _ in range(
            _TURNS
        ):  # a connection that the listener has just taken becomes a handler some turns later
            handlers = list(self._handlers)
            self.drop_connections()
            await asyncio.gather(*handlers, return_exceptions=True)
            await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        task.add_done_callback(
            lambda _: writer.transport.abort()
        )  # a task cancelled before its first step never gets to do it

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    # One for each way to answer
    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:  # noqa: C901, PLR0911, PLR0912
        """Answer one request, and tell whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        url = urlsplit(head[0].split()[1])
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        query = dict(parse_qsl(url.query))
        lower = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(lower.get("content-length", "0")))
        method = head[0].split()[0]
        verb = _VERBS.get(method) or ("watch" if query.get("watch") == "true" else "list")
        resource, name = _resource(url.path)
        if verb == "create":
            name = msgspec.json.decode(body).get("metadata", {}).get("name", "")
        authorization = lower.get("authorization", "")
        request = Request(
            verb, resource, query, authorization, asyncio.get_running_loop().time(), name
        )
        self.requests.append(request)
        if self.accepts and authorization.strip() != self.accepts:
            return await _refuse(writer, 401)
        if status := self.before(request):
            return await _refuse(writer, status)
        if url.path == "/version":
            release = {"major": "1", "minor": self.minor}
            return await (_succeed(writer, release) if self.minor else _refuse(writer, 404))
        if resource == CRDS:
            if self.definition is None:
                return await _refuse(writer, 404)
            part = "as=PartialObjectMetadata;" in lower["accept"]
            whole = self.definition
            self.whole_definitions += not part
            return await _succeed(writer, {"metadata": whole["metadata"]} if part else whole)
        if url.path == "/apis/resource.k8s.io/v1":
            return await _succeed(writer, {"resources": [{"name": "resourceclaimtemplates"}]})
        if url.path.startswith(tuple(_WRITTEN)):
            version = url.path.split("/")[3]
            if version not in self.served or not resource or verb in _VERBS.values():
                return await self._schedule(writer, url.path, method, version, body)
        if resource == EVENTS and (name or method != "GET"):
            return await self._answer_event(writer, url.path, method, body)
        if name and verb == "list" and resource in OTHERS:
            if "as=PartialObjectMetadataList;" in lower.get("accept", ""):
                return await _refuse(writer, 406)  # one object is not a list
            return await self._answer_one(writer, resource, name)
        if resource == LEASES and (name or method != "GET"):
            return await self._answer_lease(writer, url.path, method, body, dry="dryRun" in query)
        if resource == SERVICES and verb == "create":
            return await self._create(writer, resource, url.path, body)
        if resource not in self._objects:
            return await _refuse(writer, 404)
        fault = self._fault(verb, resource)
        if fault is Fault.RESET:
            return False
        if fault in _STATUSES:
            return await _refuse(writer, _STATUSES[fault])
        matches = _matcher(resource, url.path, query)
        if verb == "watch":
            return await self._watch(writer, query, matches, fault, resource)
        return await self._list(writer, query, matches, fault, resource)

    async def _schedule(
        self, writer: asyncio.StreamWriter, path: str, method: str, version: str, content: bytes
    ) -> bool:
        """Answer which resources of an API are served, or write an object of it."""
        resource, name = _resource(path)
        if version not in self.served:
            return await _refuse(writer, 404)
        if not resource:
            plurals = next(each for prefix, each in _WRITTEN.items() if path.startswith(prefix))
            return await _succeed(writer, {"resources": [{"name": each} for each in plurals]})
        try:
            found, status = self._write(
                resource, name, path, method, version, msgspec.json.decode(content)
            )
        except Refusal as refusal:
            return await _refuse(writer, refusal.status)
        return await _succeed(writer, found, status)

    def _write(
        self,
        resource: str,
        name: str,
        path: str,
        method: str,
        version: str,
        body: Any,  # noqa: ANN401
    ) -> tuple[Object, int]:
        """Return what became of an object. Raises Refusal."""
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        stored = self._objects[resource]
        old = stored.get((namespace, name or body["metadata"]["name"]))
        if (method == "POST") == (old is not None):
            raise Refusal(409 if old else 404)
        if method == "POST":
            if not self.topology_aware:
                body["spec"].pop("schedulingConstraints", None)
            return self.put(resource, admitted(version, resource, body, self.default_priority)), 201
        assert old is not None
        if method == "PATCH":
            new = self.put(resource, patched(version, old, body))
            if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
                self.protected.discard(name)
                self.delete(resource, name, namespace)
            return new, 200
        check_preconditions(old, body)
        if name in self.protected:
            kept = {
                "deletionTimestamp": "2026-11-21T10:00:00Z",
                "finalizers": [names.FINALIZER_POD_GROUP],
            }
            self.put(resource, {**old, "metadata": {**old["metadata"], **kept}})
        else:
            self.delete(resource, name, namespace)
        return {"kind": "Status"}, 200

    async def _create(
        self, writer: asyncio.StreamWriter, resource: str, path: str, content: bytes
    ) -> bool:
        """Store an object, unless one of its name exists."""
        new = msgspec.json.decode(content)
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        if (namespace, new["metadata"]["name"]) in self._objects[resource]:
            return await _refuse(writer, 409)
        return await _succeed(writer, self.put(resource, new), 201)

    async def _answer_one(self, writer: asyncio.StreamWriter, resource: str, name: str) -> bool:
        found = self._objects[resource].get(("", name))
        return await (_succeed(writer, found) if found else _refuse(writer, 404))

    async def _answer_lease(
        self, writer: asyncio.StreamWriter, path: str, method: str, content: bytes, *, dry: bool
    ) -> bool:
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        body = msgspec.json.decode(content) if content else {}
        name = _resource(path)[1] or body["metadata"]["name"]
        old = self._objects[LEASES].get((namespace, name))
        if (method == "POST") == (old is not None):
            return await _refuse(writer, 409 if old else 404)
        if dry:
            return await _succeed(writer, body)
        if method == "DELETE":
            assert old is not None
            known = {key: old["metadata"][key] for key in ("uid", "resourceVersion")}
            if body["preconditions"] != known:
                return await _refuse(writer, 409)
            self.delete(LEASES, name, namespace)
            return await _succeed(writer, old)
        if method in {"PATCH", "PUT"}:
            assert old is not None
            new: Object = jsonpatch.apply_patch(deepcopy(old), body) if method == "PATCH" else body
            if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                return await _refuse(writer, 409)
            body = new
        if content:
            body["metadata"].setdefault("namespace", namespace)
        return await _succeed(writer, self.put(LEASES, body) if content else old or {})

    async def _answer_event(
        self, writer: asyncio.StreamWriter, path: str, method: str, content: bytes
    ) -> bool:
        """Return, create or patch an event, of which nothing changes but its series.

        https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/events.go
        """
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        body = msgspec.json.decode(content) if content else {}
        name = _resource(path)[1] or body["metadata"]["name"]
        old = self._objects[EVENTS].get((namespace, name))
        if (method == "POST") == (old is not None):
            return await _refuse(writer, 409 if old else 404)
        if method == "GET":
            return await _succeed(writer, old or {})
        new: Object = body if old is None else jsonpatch.apply_patch(deepcopy(old), body)
        needed = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
        series = new.get("series", {"count": 2, "lastObservedTime": "now"})
        valid = (
            all(new.get(each) for each in needed)
            and len(new["note"]) <= 1024
            and new["regarding"]["namespace"] == namespace
            and series["count"] >= 2
            and series["lastObservedTime"]
            and (old is None or {**new, "series": 0} == {**old, "series": 0})
        )
        if not valid:
            return await _refuse(writer, 422)
        return await _succeed(writer, self.put(EVENTS, new), 200 if old else 201)

    def _fault(self, verb: str, resource: str) -> Fault | None:
        if resource != PODS:
            return None
        plans = self._plans[verb]
        return plans.popleft() if plans else self._always[verb]

    async def _list(
        self,
        writer: asyncio.StreamWriter,
        query: dict[str, str],
        matches: "Matches",
        fault: Fault | None,
        resource: str,
    ) -> bool:
        if fault is Fault.SILENCE:
            await asyncio.sleep(3600)
        token = query.get("continue")
        if token and self.continue_expires:
            self.continue_expires -= 1
            return await _refuse(writer, 410)
        version, items = (
            self._pages.pop(token) if token else (self.version, self._found(resource, matches))
        )
        limit = min(self.page_limit, int(query.get("limit", "10000")))
        meta: Object = {"resourceVersion": str(version)}
        if len(items) > limit:
            meta["continue"] = f"token-{next(self._tokens)}"
            self._pages[meta["continue"]] = (version, items[limit:])
        body = msgspec.json.encode({"kind": "List", "metadata": meta, "items": items[:limit]})
        if fault is Fault.GARBAGE:
            body = b"<html>gateway</html>"
        self._lists += 1
        self.most_at_once = max(self.most_at_once, self._lists)
        await asyncio.sleep(self.list_delay)
        self._lists -= 1
        writer.write(
            b"HTTP/1.1 200 OK\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (_date(), len(body))
        )
        writer.write(body[: len(body) // 2] if fault is Fault.CUT else body)
        await writer.drain()
        return fault is not Fault.CUT

    def _found(self, resource: str, matches: "Matches") -> list[Object]:
        return [
            obj for obj in self._objects[resource].values() if matches(Change(0, resource, "", obj))
        ]

    async def _watch(
        self,
        writer: asyncio.StreamWriter,
        query: dict[str, str],
        matches: "Matches",
        fault: Fault | None,
        resource: str,
    ) -> bool:
        since = int(query["resourceVersion"])
        if since < self._compacted:
            return await _refuse(writer, 410)
        writer.write(
            b"HTTP/1.1 200 OK\r\n%bContent-Type: application/json\r\nTransfer-Encoding: "
            b"chunked\r\n\r\n" % _date()
        )
        if fault is Fault.SILENCE:
            await asyncio.sleep(3600)
        queue: asyncio.Queue[Change] = asyncio.Queue()
        for change in self._history:
            if change.version > since:
                queue.put_nowait(change)
        self._queues[queue] = resource
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(float(query.get("timeoutSeconds", "3600"))):
                    await self._tell(writer, queue, matches, fault)
        finally:
            del self._queues[queue]
        if fault is Fault.CUT:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _tell(
        self,
        writer: asyncio.StreamWriter,
        queue: asyncio.Queue[Change],
        matches: "Matches",
        fault: Fault | None,
    ) -> None:
        """Send the lines of a watch; returns when a fault ends it."""
        while fault not in _ENDINGS or not queue.empty():
            change = await queue.get()
            if change.kind != "BOOKMARK" and not matches(change):
                continue
            line = msgspec.json.encode({"type": change.kind, "object": change.object}) + b"\n"
            await self._send(writer, line)
        ending = _ENDINGS.get(fault) if fault else None
        if ending:
            await self._send(writer, ending)

    async def _send(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        size = len(line) // self.pieces + 1
        for start in range(0, len(line), size):
            piece = line[start : start + size]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()


_WRITTEN: Final = {
    "/apis/scheduling.k8s.io/": (WORKLOADS, PODGROUPS),
    "/apis/resource.nvidia.com/": (COMPUTE_DOMAINS,),
}
_VERBS: Final = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}


def _resource(path: str) -> tuple[str, str]:
    """Return resource and name in a path, empty where it has none."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return (rest[0] if rest else ""), (rest[1] if len(rest) > 1 else "")


def _date() -> bytes:
    return b"Date: %b\r\n" % formatdate(usegmt=True).encode()


async def _succeed(writer: asyncio.StreamWriter, found: Object, status: int = 200) -> bool:
    body = msgspec.json.encode(found)
    writer.write(
        b"HTTP/1.1 %d Yes\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (status, _date(), len(body), body)
    )
    await writer.drain()
    return True


_STATUSES: Final = {
    Fault.UNAUTHORIZED: 401, Fault.FORBIDDEN: 403, Fault.EXPIRED: 410, Fault.THROTTLED: 429,
    Fault.BROKEN: 500,
}  # fmt: skip

Matches = Callable[[Change], bool]

_ENDINGS: Final = {
    Fault.EXPIRED_EVENT: (
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too '
        b'old"}}\n'
    ),
    Fault.STRANGE_EVENT: b'{"type":"ERROR","object":{"code":"none"}}\n',
    Fault.GARBAGE: b'{"type": "ADDED", <html>\n',
    Fault.TRUNCATED: b'{"type": "ADDED", "object": {"metada',
    Fault.CUT: b'{"type": "ADDED", "object": {"metada',
    Fault.BRIEF: b"",
}


_WANTED: Final = re.compile(r"([^,=\s]+)(?:=([^,]*)| in \(([^)]*)\))")
"""A requirement of a label selector: `key=value` or `key in (value,other)`."""


def _matcher(resource: str, path: str, query: dict[str, str]) -> Matches:
    """Return whether a change is of the resource, namespace and selectors that were asked for."""
    namespace = path.partition("/namespaces/")[2].partition("/")[0]
    labels = {
        key: (value or several).split(",")
        for key, value, several in _WANTED.findall(query.get("labelSelector", ""))
    }
    field, _, value = query.get("fieldSelector", "").partition("=")
    name, reason = (value if field == wanted else "" for wanted in ("metadata.name", "reason"))

    def matches(change: Change) -> bool:
        meta = change.object["metadata"]
        return (
            change.resource == resource
            and namespace in ("", meta.get("namespace", ""))
            and name in ("", meta["name"])
            and reason in ("", change.object.get("reason"))
            and all((meta.get("labels") or {}).get(key) in values for key, values in labels.items())
        )

    return matches


async def _refuse(writer: asyncio.StreamWriter, status: int) -> bool:
    body = msgspec.json.encode(
        {"kind": "Status", "code": status, "message": f"refused with {status}"}
    )
    after = b"Retry-After: 1\r\n" if status == 429 else b""
    writer.write(
        b"HTTP/1.1 %d No\r\n%b%bContent-Length: %d\r\n\r\n%b"
        % (status, _date(), after, len(body), body)
    )
    await writer.drain()
    return True
