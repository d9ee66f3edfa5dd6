"""A fake API server over real sockets: lists, pages, watches, and named failures."""

import asyncio
import itertools
import re
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
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
    check_change,
    check_event,
    check_preconditions,
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
VALIDATING: Final = "validatingwebhookconfigurations"
SECRETS: Final = "secrets"
OTHERS: Final = (
    *(EVENTS, SERVICES, NODES, NAMESPACES, CONFIGURATIONS, VALIDATING, SECRETS, QUOTAS),
    LIMIT_RANGES,
)
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
    headers: dict[str, str]
    path: str
    at: float
    name: str
    namespace: str


@dataclass
class Change:
    """One entry of the history."""

    version: int
    resource: str
    kind: str
    object: Object


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

    def store(self, resources: Mapping[str, Iterable[Object]]) -> None:
        for resource, objects in resources.items():
            for each in objects:
                self.put(resource, each)

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
                meta = {**obj["metadata"], "resourceVersion": str(self.version)}
                objects[key] = {**obj, "metadata": meta}
        self._compacted = self.version

    def compact(self) -> None:
        """Forget the history: a watch from before now is answered with 410."""
        self._history = []
        self._compacted = self.version

    def bookmark(self) -> None:
        """Tell every watch how far it is."""
        bookmark = {"metadata": {"resourceVersion": str(self.version)}}
        for queue, resource in self._queues.items():
            queue.put_nowait(Change(self.version, resource, "BOOKMARK", bookmark))

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
        else:
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
        with socket.socket() as held:  # nobody else gets the port while the server is down
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", self.port))
            self.port = held.getsockname()[1]
            await self.up()
            try:
                yield self
            finally:
                await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self.port, ssl=self._tls
        )

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        # A connection that the listener has just taken becomes a handler some turns later.
        for _ in range(5):
            handlers = list(self._handlers)
            self.drop_connections()
            await asyncio.gather(*handlers, return_exceptions=True)
            await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and return whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split()
        url = urlsplit(target)
        headers = {
            name.lower(): value
            for name, value in (line.split(": ", 1) for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        content = msgspec.json.decode(body) if body else {}
        query = dict(parse_qsl(url.query))
        verb = _VERBS.get(method) or ("watch" if query.get("watch") == "true" else "list")
        namespace, resource, name = _resource(url.path)
        if verb == "create":
            name = content.get("metadata", {}).get("name", "")
        now = asyncio.get_running_loop().time()
        request = Request(verb, resource, query, headers, url.path, now, name, namespace)
        self.requests.append(request)
        try:
            found = self._find(request, content)
            if found is not None:
                return await _send(writer, found, 201 if verb == "create" else 200)
            fault = self._fault(verb, resource)
            if fault is Fault.RESET:
                return False
            respond = self._watch if verb == "watch" else self._list
            return await respond(writer, request, fault)
        except Refusal as refusal:
            return await _refuse(writer, refusal.status, url.path)

    def _find(self, request: Request, content: Any) -> Object | None:  # noqa: ANN401
        """Return what a request finds or writes, None for lists and watches. Raises Refusal."""
        path, accept = request.path, request.headers.get("accept", "")
        denied = self.accepts not in ("", request.headers.get("authorization", "").strip())
        strange = request.verb == "patch" and request.headers["content-type"] != _JSON_PATCH
        if status := 401 if denied else 415 if strange else self.before(request):
            raise Refusal(status)
        if found := self._discover(request.resource, path, accept):
            return found
        resource, reads = request.resource, request.verb == "list"
        if resource not in self._objects or resource == CRDS:
            raise Refusal(404)
        if (
            request.verb == "watch"
            or (reads and not request.name)
            or resource in (PODS, RAYCLUSTERS)
        ):
            return None
        if "as=PartialObjectMetadataList;" in accept:
            raise Refusal(406)  # one object is not a list
        old = self._objects[resource].get((request.namespace, request.name))
        if (request.verb == "create") == (old is not None):
            raise Refusal(409 if old else 404)
        if reads:
            return old
        if "dryRun" in request.query:
            return dict(content)
        if request.verb == "delete":
            return self._delete(request, old or {}, content)
        return self._write(request, path.split("/")[3], old or {}, content)

    def _discover(self, resource: str, path: str, accept: str) -> Object | None:
        """Return release, resources or definition. Raises Refusal for what is not served."""
        if path == "/version" and self.minor:
            return {"major": "1", "minor": self.minor}
        if resource == CRDS and self.definition is not None:
            part = "as=PartialObjectMetadata;" in accept
            self.whole_definitions += not part
            return {"metadata": self.definition["metadata"]} if part else self.definition
        if path == "/apis/resource.k8s.io/v1":
            return {"resources": [{"name": "resourceclaimtemplates"}]}
        group, version = [*path.split("/"), "", ""][2:4]
        if group in _WRITTEN:
            if version not in self.served:
                raise Refusal(404)
            if not resource:
                return {"resources": [{"name": each} for each in _WRITTEN[group]]}
        return None

    def _delete(self, request: Request, old: Object, options: Object) -> Object:
        check_preconditions(old, options)
        if request.name in self.protected:
            meta = {
                **old["metadata"],
                "deletionTimestamp": "2024-11-21T10:00:00Z",
                "finalizers": [names.FINALIZER_POD_GROUP],
            }
            self.put(request.resource, {**old, "metadata": meta})
        else:
            self.delete(request.resource, request.name, request.namespace)
        return {"kind": "Status"}

    def _write(self, request: Request, version: str, old: Object, content: Any) -> Object:  # noqa: ANN401
        """Return an object as it is stored. Raises Refusal."""
        resource, name = request.resource, request.name
        new: Object = content
        if request.verb == "patch":
            new = jsonpatch.apply_patch(deepcopy(old), content)
        if old and new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise Refusal(409)
        new["metadata"].setdefault("namespace", request.namespace)
        if resource == EVENTS:
            check_event(old, new)
        elif resource in (PODGROUPS, WORKLOADS, COMPUTE_DOMAINS) and old:
            check_change(version, old, new)
        elif resource in (PODGROUPS, WORKLOADS, COMPUTE_DOMAINS):
            if not self.topology_aware:
                new["spec"].pop("schedulingConstraints", None)
            new = admitted(version, resource, new, self.default_priority)
        new = self.put(resource, new)
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self.protected.discard(name)
            self.delete(resource, name, request.namespace)
        return new

    def _fault(self, verb: str, resource: str) -> Fault | None:
        if resource != PODS:
            return None
        plans = self._plans[verb]
        fault = plans.popleft() if plans else self._always[verb]
        if fault in _STATUSES:
            raise Refusal(_STATUSES[fault])
        return fault

    async def _list(
        self, writer: asyncio.StreamWriter, request: Request, fault: Fault | None
    ) -> bool:
        if fault is Fault.SILENCE:
            await asyncio.sleep(3600)
        token = request.query.get("continue")
        if token and self.continue_expires:
            self.continue_expires -= 1
            raise Refusal(410)
        if token:
            version, items = self._pages.pop(token)
        else:
            matches, objects = _matcher(request), self._objects[request.resource].values()
            version, items = self.version, [each for each in objects if matches(each)]
        limit = min(self.page_limit, int(request.query.get("limit", "10000")))
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
        writer.write(_head(200, b"Content-Length: %d" % len(body)))
        writer.write(body[: len(body) // 2] if fault is Fault.CUT else body)
        await writer.drain()
        return fault is not Fault.CUT

    async def _watch(
        self, writer: asyncio.StreamWriter, request: Request, fault: Fault | None
    ) -> bool:
        since = int(request.query["resourceVersion"])
        if since < self._compacted:
            raise Refusal(410)
        writer.write(_head(200, b"Transfer-Encoding: chunked"))
        if fault is Fault.SILENCE:
            await asyncio.sleep(3600)
        queue: asyncio.Queue[Change] = asyncio.Queue()
        for change in self._history:
            if change.version > since:
                queue.put_nowait(change)
        self._queues[queue] = request.resource
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(float(request.query.get("timeoutSeconds", "3600"))):
                    await self._send_changes(writer, queue, request, fault)
        finally:
            del self._queues[queue]
        if fault is Fault.CUT:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send_changes(
        self,
        writer: asyncio.StreamWriter,
        queue: asyncio.Queue[Change],
        request: Request,
        fault: Fault | None,
    ) -> None:
        """Send the lines of a watch; returns when a fault ends it."""
        matches = _matcher(request)
        while fault not in _ENDINGS or not queue.empty():
            change = await queue.get()
            if change.resource == request.resource and (
                change.kind == "BOOKMARK" or matches(change.object)
            ):
                line = {"type": change.kind, "object": change.object}
                await self._send_line(writer, msgspec.json.encode(line) + b"\n")
        if ending := _ENDINGS.get(fault):
            await self._send_line(writer, ending)

    async def _send_line(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        size = len(line) // self.pieces + 1
        for start in range(0, len(line), size):
            piece = line[start : start + size]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()


_WRITTEN: Final = {
    "scheduling.k8s.io": (WORKLOADS, PODGROUPS),
    "resource.nvidia.com": (COMPUTE_DOMAINS,),
}
_JSON_PATCH: Final = "application/json-patch+json"
_VERBS: Final = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}


def _resource(path: str) -> tuple[str, str, str]:
    """Return namespace, resource and name in a path, empty where it has none."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name = [*rest, "", ""][:2]
    return namespace, resource, name


def _head(status: int, *headers: bytes) -> bytes:
    date = formatdate(usegmt=True).encode()
    lines = (b"HTTP/1.1 %d -" % status, b"Date: " + date, b"Content-Type: application/json")
    return b"\r\n".join((*lines, *headers, b"", b""))


async def _send(
    writer: asyncio.StreamWriter, content: Object, status: int, *headers: bytes
) -> bool:
    body = msgspec.json.encode(content)
    writer.write(_head(status, b"Content-Length: %d" % len(body), *headers) + body)
    await writer.drain()
    return True


_STATUSES: Final = {
    Fault.UNAUTHORIZED: 401, Fault.FORBIDDEN: 403, Fault.EXPIRED: 410, Fault.THROTTLED: 429,
    Fault.BROKEN: 500,
}  # fmt: skip

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


def _matcher(request: Request) -> Callable[[Object], bool]:
    """Return whether an object is of the namespace and selectors of a request."""
    labels = {
        key: (value or several).split(",")
        for key, value, several in _WANTED.findall(request.query.get("labelSelector", ""))
    }
    field, _, value = request.query.get("fieldSelector", "").partition("=")
    name, reason = (value if field == wanted else "" for wanted in ("metadata.name", "reason"))

    def matches(found: Object) -> bool:
        meta = found["metadata"]
        return (
            request.namespace in ("", meta.get("namespace", ""))
            and name in ("", meta["name"])
            and reason in ("", found.get("reason"))
            and all((meta.get("labels") or {}).get(key) in values for key, values in labels.items())
        )

    return matches


async def _refuse(writer: asyncio.StreamWriter, status: int, path: str) -> bool:
    content = {"kind": "Status", "code": status, "message": f"{path} refused with {status}"}
    after = [b"Retry-After: 1"] if status == 429 else []
    return await _send(writer, content, status, *after)
