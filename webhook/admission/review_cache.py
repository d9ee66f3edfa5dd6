"""Reviews of pods of one group: they differ only in what the cluster makes up for each pod.

That is the uid of the review, the second of its managed fields, the name of the volume with its
token, and the seat labels that KubeRay 1.6 and later write. A body that is, but for these, one that
was read before need not be read again.

See docs/decisions/0018-reviews-that-recur.md.
"""

import re
from collections.abc import Callable
from itertools import chain, islice, pairwise
from operator import itemgetter
from string import ascii_letters, digits
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.codec import decode_pod
from webhook.admission.errors import BadReview
from webhook.kube import names
from webhook.kube.objects import Pod
from webhook.kube.review import AdmissionRequest

KEPT: Final = 256
"""Names whose bodies are kept: those of groups that come up at the same time."""

ALIKE: Final = 4
"""Bodies of one size and one `generateName` that are kept, and compared with the next one."""

BODY_MAX: Final = 32 * 1024
"""Bytes of a body that is worth keeping, which takes twice its size; most have about 10 KiB."""

HOLES_MAX: Final = 32
"""Texts that are made up in one body; the volume's name stands in each container."""

CREDIT_MAX: Final = 10_000
"""What may be spent at once on comparing bodies, in units of what it costs to read one. A review
earns one, so whatever the bodies are, they take no longer, all in all, than reading each twice.
"""

_OPENING: Final = 32  # what it costs at most to open a body
_HIT: Final = 2  # what a review that was like an earlier one earns besides

_NAME: Final = b'"generateName":"'
_NAME_MAX: Final = 80
_FRONT: Final = 4096  # before it stand the kinds, and whom KubeRay is for the API server

_PLAIN: Final = (ascii_letters + digits + "-:.").encode()
"""Characters that end no JSON string and stand for themselves in it."""
_OTHER: Final = bytes.maketrans(_PLAIN, _PLAIN[1:] + _PLAIN[:1])

_MADE_UP: Final = re.compile(
    rb'"time":"([0-9TZ:.-]+)"|"kube-api-access-([a-z0-9]{5})"|"(%b)":"([a-zA-Z0-9.-]+)"'
    % b"|".join(re.escape(label.encode()) for label in names.SEAT_LABELS)
)
"""Kubernetes: `ManagedFieldsEntry`; plugin/pkg/admission/serviceaccount/admission.go."""


class _Known(Struct, frozen=True, gc=False):
    """A body that was read, by what is around its holes and what fills them: uid, labels, all."""

    around: Callable[[bytes], tuple[bytes, ...]]
    texts: tuple[bytes, ...]
    made_up: Callable[[bytes], tuple[bytes, ...]]
    labels: tuple[str, ...]
    request: AdmissionRequest[Pod]

    def match(self, body: bytes) -> AdmissionRequest[Pod] | None:
        """Return the request of a body as long as this one that differs in the holes alone."""
        if self.around(body) != self.texts:
            return None
        made_up = self.made_up(body)
        if b"".join(made_up).translate(None, _PLAIN):
            return None
        uid, pod = made_up[0].decode(), self.request.object
        if self.labels and pod is not None:
            seat = zip(self.labels, map(bytes.decode, made_up[1:]), strict=False)
            pod = replace(pod, metadata=replace(pod.metadata, labels=pod.labels | dict(seat)))
        return replace(self.request, uid=uid, object=pod)


class ReviewCache:
    """Reads reviews of Pods, and those that are like an earlier one at a glance."""

    def __init__(self, credit: int = CREDIT_MAX) -> None:
        self.hits = 0
        self.misses = 0
        self._credit = self._credit_max = credit
        self._known: dict[tuple[int, bytes], list[_Known]] = {}

    def read(self, body: bytes) -> AdmissionRequest[Pod]:
        """Return the request of a review, exactly as `decode_pod` does. Raises BadReview."""
        at = body.find(_NAME, 0, _FRONT)
        if at < 0 or len(body) > BODY_MAX:
            self.misses += 1
            return decode_pod(body)
        key = len(body), body[at : at + _NAME_MAX]
        known = self._known.get(key)
        if self._credit < self._credit_max:
            self._credit += 1
        for each in known or ():
            if self._credit <= 0:
                break
            request = each.match(body)
            if request is not None:
                self._credit += _HIT
                self.hits += 1
                return request
            self._credit -= 1
        self.misses += 1
        request = decode_pod(body)
        if _may_recur(request):
            self._keep(key, body, request)
        return request

    def _keep(self, key: tuple[int, bytes], body: bytes, request: AdmissionRequest[Pod]) -> None:
        """Keep a body that is not the first of its key: most names never come again."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) == KEPT:
                self._known.clear()
            self._known[key] = []
        elif len(known) < ALIKE and self._credit >= _OPENING:
            self._credit -= _OPENING
            opened = _opened(body, request)
            if opened is not None:
                known.append(opened)


def _may_recur(request: AdmissionRequest[Pod]) -> bool:
    """Tell whether other reviews may be like this one: those of workers that have no name yet."""
    pod = request.object
    return (
        pod is not None
        and not pod.metadata.name
        and pod.labels.get(names.LABEL_NODE_TYPE) == names.NODE_TYPE_WORKER
    )


def _opened(body: bytes, request: AdmissionRequest[Pod]) -> _Known | None:
    """Return a body with holes, or None when what stands in them means more than uid and seat.

    That is tried out: a body with other characters in the holes must read as what is made of it. A
    hole is the end of a JSON string, where those of `_PLAIN` mean nothing but themselves; so
    whatever of these stands in the holes, nothing else can change.
    """
    text = request.uid.encode()
    start = body.find(b'"uid":"%b"' % text) + len('"uid":"')
    uid = slice(start, start + len(text))
    found = list(islice(_MADE_UP.finditer(body), HOLES_MAX + 1))
    if body[uid] != text or len(found) > HOLES_MAX:
        return None
    holes = [slice(*match.span(match.lastindex or 0)) for match in found]
    labels = {match[3].decode(): hole for match, hole in zip(found, holes, strict=True) if match[3]}
    edges = chain.from_iterable(sorted((hole.start, hole.stop) for hole in [uid, *holes]))
    around = [slice(*ends) for ends in pairwise([0, *edges, len(body)])]
    texts, made_up = itemgetter(*around[::2]), itemgetter(uid, *labels.values(), *around[1::2])
    known = _Known(texts, texts(body), made_up, tuple(labels), request)
    other = bytearray(body)
    for hole in around[1::2]:
        other[hole] = body[hole].translate(_OTHER)
    try:
        return known if known.match(bytes(other)) == decode_pod(bytes(other)) else None
    except BadReview:
        return None
