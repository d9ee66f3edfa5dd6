"""Reviews: from the bytes of an AdmissionReview to the bytes of its answer, by way of the handler that its kind has."""

from typing import Any, Protocol

from msgspec import Struct

from webhook.admission.codec import decode_pod, encode, is_pod
from webhook.admission.errors import ClusterUnknown
from webhook.admission.pods import PodHandler
from webhook.kube import names
from webhook.kube.review import ALLOWED, NOT_FOUND, AdmissionRequest, Answer, Cause, Denied


class ClusterReader(Protocol):
    """Reads a RayCluster that the watch has not delivered, into the index that the handlers look at."""

    async def read(self, namespace: str, name: str) -> None:
        """Read one RayCluster, live, with a deadline. Raises when the API server cannot be asked."""


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

    def __init__(self, pods: PodHandler, reader: ClusterReader | None = None) -> None:
        self._pods = pods
        self._reader = reader

    async def review(self, body: bytes, now: float) -> Outcome:
        """Return the outcome of one review at the monotonic time `now`. Raises BadReview."""
        request = decode_pod(body)
        answer = await self._answer(request, now) if is_pod(request) else ALLOWED
        return Outcome(request, answer, encode(request, answer))

    async def _answer(self, request: AdmissionRequest[Any], now: float) -> Answer:
        try:
            try:
                return self._pods(request, now)
            except ClusterUnknown as unknown:
                if self._reader is None:
                    return _unknown(unknown)
                await self._reader.read(unknown.namespace, unknown.name)
            return self._pods(request, now)
        except ClusterUnknown as unknown:
            return _unknown(unknown)
        except Denied as denied:
            return Answer(denied.causes)


def _unknown(unknown: ClusterUnknown) -> Answer:
    text = f"{unknown}: it was deleted or recreated, or is not there yet; KubeRay tries again"
    return Answer((Cause(NOT_FOUND, text, f"metadata.labels[{names.LABEL_CLUSTER}]"),))
