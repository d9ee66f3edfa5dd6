"""Reviews that recur: the pods that KubeRay creates for a group differ only in what kube-apiserver makes up for each.

That is the uid of the review, the second of its managed fields, and the name of the volume with its token. A body that is, but for
these, one that was read before need not be read again.
"""

import re
from collections.abc import Callable
from itertools import chain, pairwise
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
"""Bodies that are kept: those of groups that come up at the same time."""

BODY_MAX: Final = 32 * 1024
"""Bytes of a body that is worth to be kept; most have about 10 KiB, and a kept one takes twice its size."""

_NAME: Final = b'"generateName":"'
_NAME_MAX: Final = 80

_PLAIN: Final = (ascii_letters + digits + "-:.").encode()
"""Characters that end no JSON string and stand for themselves in it."""

_OTHER: Final = bytes.maketrans(_PLAIN, _PLAIN[1:] + _PLAIN[:1])

_MADE_UP: Final = re.compile(rb'"time":"([0-9TZ:.-]+)"|"kube-api-access-([a-z0-9]{5})"')
"""Kubernetes: `ManagedFieldsEntry`; plugin/pkg/admission/serviceaccount/admission.go (ServiceAccountVolumeName)."""


class _Known(Struct, frozen=True, gc=False):
    """A body that was read, in pieces: what it has for the uid and in each hole, and what it has around the holes."""

    made_up: Callable[[bytes], tuple[bytes, ...]]
    around: Callable[[bytes], tuple[bytes, ...]]
    texts: tuple[bytes, ...]
    request: AdmissionRequest[Pod]

    def match(self, body: bytes) -> AdmissionRequest[Pod] | None:
        """Return the request of a body as long as this one, or None when it differs in more than its holes."""
        if self.around(body) != self.texts:
            return None
        made_up = self.made_up(body)
        if b"".join(made_up).translate(None, _PLAIN):
            return None
        return replace(self.request, uid=made_up[0].decode())


class ReviewCache:
    """Reads reviews of Pods, and the recurring ones at a glance: their requests share one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], list[_Known]] = {}

    def read(self, body: bytes) -> AdmissionRequest[Pod]:
        """Return the request of a review, exactly as `decode_pod` does. Raises BadReview."""
        if len(body) > BODY_MAX or (at := body.find(_NAME)) < 0:
            return decode_pod(body)
        key = len(body), body[at : at + _NAME_MAX]
        for known in self._known.get(key, ()):
            request = known.match(body)
            if request is not None:
                return request
        request = decode_pod(body)
        if _recurs(request) and (opened := _opened(body, request)):
            self._keep(key, opened)
        return request

    def _keep(self, key: tuple[int, bytes], known: _Known) -> None:
        if sum(map(len, self._known.values())) == KEPT:
            self._known.clear()
        self._known.setdefault(key, []).insert(0, known)


def _recurs(request: AdmissionRequest[Pod]) -> bool:
    """Tell whether other reviews may be like this one: those of workers that have neither a name nor a seat yet."""
    pod = request.object
    if pod is None or pod.metadata.name:
        return False
    return pod.labels.get(names.LABEL_NODE_TYPE) == names.NODE_TYPE_WORKER and names.LABEL_REPLICA_INDEX not in pod.labels


def _opened(body: bytes, request: AdmissionRequest[Pod]) -> _Known | None:
    """Return a body with holes, or None when what stands in them has a meaning beyond the uid of the request.

    That is tried out: other characters in the holes must read as the same request, but for its uid. A hole is the end of a JSON
    string, where those of `_PLAIN` mean nothing but themselves; so whatever of these stands in the holes, nothing else can change.
    """
    text = request.uid.encode()
    start = body.find(b'"uid":"%b"' % text) + len('"uid":"')
    uid = slice(start, start + len(text))
    if body[uid] != text:
        return None
    holes = sorted([(uid.start, uid.stop), *(found.span(found.lastindex or 0) for found in _MADE_UP.finditer(body))])
    pieces = [slice(start, end) for start, end in pairwise([0, *chain.from_iterable(holes), len(body)])]
    other = bytearray(body)
    for hole in pieces[1::2]:
        other[hole] = body[hole].translate(_OTHER)
    try:
        if decode_pod(bytes(other)) != replace(request, uid=other[uid].decode()):
            return None
    except BadReview:
        return None
    around = itemgetter(*pieces[::2])
    return _Known(itemgetter(uid, *pieces[1::2]), around, around(body), request)
