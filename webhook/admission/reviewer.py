"""Reviews: from the bytes of an AdmissionReview to the bytes of its answer, by way of the handler that its kind has."""

from typing import Any, Protocol

from msgspec import Struct

from webhook.admission.codec import decode_bare, decode_object, decode_pod, encode, is_pod, is_raycluster, is_resize
from webhook.admission.errors import ClusterUnknown, Unsure
from webhook.admission.pods import PodHandler
from webhook.admission.rays import RayHandler
from webhook.admission.resize import ResizeHandler
from webhook.admission.review_cache import ReviewCache
from webhook.admission.shards import ShardHandler
from webhook.groups.seat import GroupKey
from webhook.kube import names
from webhook.kube.review import ALLOWED, NOT_FOUND, AdmissionRequest, Answer, Cause, Denied


class ClusterReader(Protocol):
    """Reads what the watches may not have delivered, into the index and the membership that the handlers look at.

    Reads are live and have a deadline. They raise ClusterUnreadable when the API server cannot be asked.
    """

    async def read(self, namespace: str, name: str) -> None:
        """Read one RayCluster."""

    async def read_group(self, name: str, key: GroupKey) -> None:
        """Read the pods of one worker group, and its RayCluster `name`."""


class Outcome(Struct, frozen=True, gc=False):
    """A review that has its answer: what was asked, the verdict, and the bytes to send."""

    request: AdmissionRequest[Any]
    answer: Answer
    body: bytes

    @property
    def name(self) -> str:
        """The name of the object, or what its name will be generated from."""
        request = self.request
        if request.name:
            return request.name
        meta = getattr(request.object or request.old_object, "metadata", None)
        return (meta.name or meta.generate_name or "") if meta else ""


class Mutation:
    """Answers `POST /mutate`."""

    def __init__(self, pods: PodHandler, reader: ClusterReader | None = None, shards: ShardHandler | None = None) -> None:
        self._pods = pods
        self._reader = reader
        self._shards = shards
        self._reviews = ReviewCache()

    async def review(self, body: bytes, now: float) -> Outcome:
        """Return the outcome of one review at the monotonic time `now`. Raises BadReview or ClusterUnreadable."""
        request: AdmissionRequest[Any] = self._reviews.read(body)
        try:
            try:
                if is_pod(request):
                    answer = self._pods(request, now, fresh=None if self._reader is None else False)
                elif self._shards is not None and is_raycluster(request):
                    request = decode_bare(body)
                    answer = self._shards(request, now)
                else:
                    answer = ALLOWED
            except (ClusterUnknown, Unsure) as doubt:
                answer = await self._decide_again(request, now, doubt)
        except ClusterUnknown as unknown:
            answer = _unknown(unknown)
        except Denied as denied:
            answer = Answer(denied.causes)
        return Outcome(request, answer, encode(request, answer))

    async def _decide_again(self, request: AdmissionRequest[Any], now: float, doubt: ClusterUnknown | Unsure) -> Answer:
        """Decide after live reads, as what is known is not enough. Raises Denied, ClusterUnknown or ClusterUnreadable."""
        if self._reader is None:
            raise doubt
        if isinstance(doubt, ClusterUnknown):
            await self._reader.read(doubt.namespace, doubt.name)
            try:
                return self._pods(request, now, fresh=False)
            except Unsure as unsure:
                doubt = unsure
        await self._reader.read_group(doubt.cluster, doubt.key)
        return self._pods(request, now, fresh=True)


class Validation:
    """Answers `POST /validate`."""

    def __init__(self, rays: RayHandler, resize: ResizeHandler | None = None) -> None:
        self._rays = rays
        self._resize = resize

    async def review(self, body: bytes, now: float) -> Outcome:  # noqa: ARG002 - the interface of all reviewers
        """Return the outcome of one review. Raises BadReview."""
        request = decode_object(body)
        if self._resize is not None and is_resize(request):
            request = decode_pod(body)
            answer = self._resize(request)
        else:
            answer = self._rays(request)
        return Outcome(request, answer, encode(request, answer))


def _unknown(unknown: ClusterUnknown) -> Answer:
    text = f"{unknown}: it was deleted or recreated, or is not there yet; KubeRay tries again"
    return Answer((Cause(NOT_FOUND, text, f"metadata.labels[{names.LABEL_CLUSTER}]"),))
