"""Reviews: from the bytes of an AdmissionReview to the bytes of its response, by the handler of its
kind.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct

from webhook.admission.binding_handler import BindingHandler
from webhook.admission.codec import decode_bare, decode_object, decode_pod, encode
from webhook.admission.eviction_handler import EvictionHandler, ReadInTime
from webhook.admission.pod_handler import PodHandler
from webhook.admission.ray_handler import RayHandler
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.objects import Bare, Pod
from webhook.api.review import ALLOWED, AdmissionRequest, Answer, Denied, NotNow
from webhook.groups.group_config import is_ignored
from webhook.groups.required_reads import Read

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGE: Final = 64 * 1024
"""Bytes of the body of a pod's review; a larger one is decoded outside of the event loop."""


_SMALL: Final = 4096
"""Bytes of a body of `/validate` that is decoded in the event loop first, for less than a change of
threads costs: most reviews of evictions are smaller.
"""


class InThread(Protocol):
    """Calls a function of a body without side effects, concurrently with other reviews and in turns
    between clients.
    """

    def __call__(
        self, client: str, body: bytes, function: Callable[[bytes, *Ts], T], *arguments: *Ts
    ) -> Awaitable[T]:
        """Return an awaitable of the result."""


REVIEW_SECONDS: Final = 8.0
"""Time for reads and writes where the API server has its default timeout, 10 s."""


class InTime(Protocol):
    """Limits the time of reads and writes, so that the API server gets an answer before its timeout
    for the review.
    """

    def __call__(self, work: Awaitable[T], seconds: float) -> Awaitable[T]:
        """Return an awaitable of the result. Raises NotNow."""


async def _whenever(work: Awaitable[T], seconds: float) -> T:  # noqa: ARG001 - an InTime
    return await work


async def _here(
    client: str,  # noqa: ARG001 - an InThread
    body: bytes,
    function: Callable[[bytes, *Ts], T],
    *arguments: *Ts,
) -> T:
    return function(body, *arguments)


class ClusterReader(Protocol):
    """Reads objects that the watches may not have delivered into the caches of the handlers."""

    async def read(self, what: Read) -> None:
        """Read live, within a deadline. Raises ClusterUnreadable if the API server does not
        answer.
        """


Handler = Callable[[AdmissionRequest[Any], Sequence[Read]], Awaitable[Answer | Read]]
"""Returns the response to a review, or the objects to read first, none of which was read before."""


class Outcome(Struct, frozen=True, gc=False):
    """A completed review: the request, the verdict, and the bytes of the response."""

    request: AdmissionRequest[Any]
    answer: Answer
    body: bytes

    @property
    def name(self) -> str:
        """Return the name of the object, or its `generateName`."""
        return _name(self.request)


def _name(request: AdmissionRequest[Any]) -> str:
    if request.name:
        return request.name
    meta = getattr(request.object or request.old_object, "metadata", None)
    return (meta.name or meta.generate_name or "") if meta else ""


# API groups, resources and subresources.
_POD: Final = ("", "pods", "")
_RAYCLUSTER: Final = (names.RAY_GROUP, "rayclusters", "")
_BINDING: Final = ("", "pods", "binding")
_EVICTION: Final = ("", "pods", "eviction")


def _target(request: AdmissionRequest[Any]) -> tuple[str, str, str]:
    return request.resource.group, request.resource.resource, request.sub_resource or ""


class Mutation:
    """Answers `POST /mutate`. With `ignoring`, the `ignore` label of RayClusters is honoured."""

    def __init__(
        self,
        pods: PodHandler,
        reader: ClusterReader | None = None,
        shards: ShardHandler | None = None,
        *,
        in_thread: InThread = _here,
        in_time: InTime = _whenever,
        ignoring: bool = True,
    ) -> None:
        self._pods = pods
        self._reader = reader
        self._shards = shards
        self.bindings: BindingHandler | None = None
        """Answers reviews of `pods/binding`; None allows them unchanged."""
        self._in_thread = in_thread
        self._in_time = in_time
        self._ignoring = ignoring

    async def review(
        self, body: bytes, seconds: float = REVIEW_SECONDS, client: str = ""
    ) -> Outcome:
        """Return the outcome of a review that a client sent, whose reads and writes may take
        `seconds`. Raises BadReview or NotNow.
        """
        large = len(body) > LARGE
        request: AdmissionRequest[Any] = await self._decode_body(decode_pod, body, client)
        target = _target(request)
        try:
            if target == _POD:
                answer = await self._pod(request, seconds, large=large)
            # Decoded again: as a Pod, the RayCluster has lost its fields.
            elif self._shards is not None and target == _RAYCLUSTER:
                request = await self._decode_body(decode_bare, body, client)
                answer = await self._cluster(self._shards, request, seconds)
            elif self.bindings is not None and target == _BINDING:
                request = await self._decode_body(decode_object, body, client)
                answer = await self.bindings(request)
            else:
                # A webhook configuration may select more resources than this process handles.
                answer = ALLOWED
        except Denied as denied:
            answer = Answer(denied.causes, rules=denied.rules)
        except NotNow as reason:
            # The code that raises it does not have the object, and kubectl shows only this text.
            reason.subject = f"{request.kind.kind} {request.namespace or ''}/{_name(request)}"
            raise
        return Outcome(request, answer, encode(request, answer))

    async def _decode_body(self, decode: Callable[[bytes], T], body: bytes, client: str) -> T:
        return await self._in_thread(client, body, decode) if len(body) > LARGE else decode(body)

    async def _pod(self, request: AdmissionRequest[Pod], seconds: float, *, large: bool) -> Answer:
        handler = partial(self._pods, large=large)
        labels = request.object.metadata.labels if request.object else None
        if labels and not labels.keys().isdisjoint(names.IDENTITY_LABELS):
            # A timer costs as much as the template, so it is set only for a read.
            in_time = partial(self._in_time, seconds=seconds)
            return await run_handler(handler, request, self._reader, in_time)
        return await self._in_time(run_handler(handler, request, self._reader), seconds)

    async def _cluster(
        self, shards: ShardHandler, request: AdmissionRequest[Bare], seconds: float
    ) -> Answer:
        if self._ignoring and request.object and is_ignored(request.object.metadata.labels):
            return ALLOWED
        return await self._in_time(run_handler(shards, request, self._reader), seconds)


class ObjectReviewer:
    """Answers `POST /validate`. Ray objects are checked outside of the event loop: the time of a
    review depends on the number of rules for the parts of the object, more than on its size.
    """

    def __init__(
        self,
        rays: RayHandler,
        evictions: EvictionHandler | None = None,
        *,
        in_thread: InThread = _here,
        in_time: InTime = _whenever,
    ) -> None:
        self._rays = rays
        self._evictions = evictions
        self._in_thread = in_thread
        self._in_time = in_time

    async def review(
        self,
        body: bytes,
        seconds: float = REVIEW_SECONDS,
        client: str = "",
    ) -> Outcome:
        """Return the outcome of a review that a client sent, whose reads may take `seconds`. Raises
        BadReview.
        """
        evictions = self._evictions
        if evictions is None:
            return await self._in_thread(client, body, self._review_ray_object)
        request = decode_object(body) if len(body) <= _SMALL else None
        if request is None or _target(request) != _EVICTION:
            outcome = await self._in_thread(client, body, self._review_ray_object, request)
            request = outcome.request
            if _target(request) != _EVICTION:
                return outcome
        # The caches of the cluster belong to the event loop.
        answer = await evictions(request, partial(self._in_time, seconds=seconds))
        return Outcome(request, answer, encode(request, answer))

    def _review_ray_object(
        self, body: bytes, request: AdmissionRequest[Any] | None = None
    ) -> Outcome:
        request = request or decode_object(body)
        answer = self._rays(request)
        return Outcome(request, answer, encode(request, answer))


async def _at_once(work: Awaitable[None]) -> None:
    await work


async def run_handler(
    handler: Handler,
    request: AdmissionRequest[Any],
    reader: ClusterReader | None = None,
    in_time: ReadInTime = _at_once,
) -> Answer:
    """Return the response of a handler, after reading the objects that it needs. Without a reader,
    no more objects are available. `in_time` limits the time of a read. Raises Denied, BadReview or
    NotNow.
    """
    read: list[Read] = []
    while not isinstance(answer := await handler(request, read), Answer):
        if reader is not None:
            await in_time(reader.read(answer))
        read.append(answer)
    return answer
