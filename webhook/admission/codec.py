"""Decoding and encoding of AdmissionReviews. Objects are never encoded, so that unknown fields are
never lost.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, structs

from webhook.api.formats import DNS_LABEL_MAX, one_line, shorten
from webhook.api.objects import Bare, Pod
from webhook.api.review import (
    API_VERSION,
    DISRUPTION,
    KIND,
    AdmissionRequest,
    Answer,
    BadReview,
    Cause,
)

T = TypeVar("T")

WARNING_MAX: Final = 120
"""Characters of a warning; longer ones make the API server truncate all warnings."""
WARNINGS_MAX: Final = 32
"""Warnings of a response; the API server drops warnings after 4,096 characters in total."""

REFUSED: Final = "refused by ray-webhook"
EXPLAIN: Final = "; explain: ray-webhook explain rule "

UNPROCESSABLE: Final = 422
TOO_MANY: Final = 429
"""The only code after which `kubectl drain` prints the message and tries again. Without
`retryAfterSeconds` it does so every 5 s; with it, its client tries again in silence.
"""


class _Review(Struct, Generic[T], rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest[T] | None = None


class _Details(Struct, frozen=True, omit_defaults=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()


class _Status(Struct, frozen=True):
    status: str
    message: str
    reason: str
    code: int
    details: _Details


class _Response(Struct, rename="camel", omit_defaults=True, gc=False):
    uid: str
    allowed: bool = msgspec.field()
    status: _Status | None = None
    patch_type: str | None = None
    patch: bytes | None = None
    warnings: list[str] | None = None
    audit_annotations: dict[str, str] | None = None


class _Answered(Struct, rename="camel", gc=False):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_pod_decoder: Final = msgspec.json.Decoder(_Review[Pod])
_bare_decoder: Final = msgspec.json.Decoder(_Review[Bare])
_any_decoder: Final = msgspec.json.Decoder(_Review[Any])
_encoder: Final = msgspec.json.Encoder()
_MALFORMED: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

# (API group, kind) -> resource, for the supported kinds.
_RESOURCES: Final = {
    ("", "Pod"): "pods",
    ("ray.io", "RayCluster"): "rayclusters",
    ("ray.io", "RayJob"): "rayjobs",
    ("ray.io", "RayService"): "rayservices",
    ("ray.io", "RayCronJob"): "raycronjobs",
}
_KINDS: Final = {(group, resource): kind for (group, kind), resource in _RESOURCES.items()}


def decode_pod(body: bytes) -> AdmissionRequest[Pod]:
    """Return the request of a review with its objects as Pods. Raises BadReview.

    Objects of another kind are not meaningful. Objects of another kind or of a subresource that
    cannot be decoded as Pods are omitted.
    """
    try:
        return _check_review(_pod_decoder.decode(body))
    except _MALFORMED as error:
        request = decode_object(body)
        kind, group = request.kind.kind, request.kind.group
        pod = kind == "Pod" and not group and not request.sub_resource
        # Objects of other kinds are allowed unchanged, or decoded again as what they are.
        if pod or isinstance(error, RecursionError):
            msg = f"the Pod in the AdmissionReview is malformed: {error}"
            raise BadReview(msg) from None
        return structs.replace(request, object=None, old_object=None)


def decode_bare(body: bytes) -> AdmissionRequest[Bare]:
    """Return the request of a review with only the metadata of its objects. Raises BadReview."""
    try:
        return _check_review(_bare_decoder.decode(body))
    except _MALFORMED as error:
        msg = f"the object in the AdmissionReview is malformed: {error}"
        raise BadReview(msg) from None


def decode_object(body: bytes) -> AdmissionRequest[Any]:
    """Return the request of a review with its objects as plain JSON values. Raises BadReview."""
    try:
        return _check_review(_any_decoder.decode(body))
    except _MALFORMED as error:
        msg = f"the body is not an AdmissionReview in JSON: {error}"
        if isinstance(error, RecursionError):
            msg = "the body is nested too deeply to be an AdmissionReview"
        raise BadReview(msg) from None


_UID_MAX: Final = DNS_LABEL_MAX
"""Characters of the uid of a request; kube-apiserver sends 36."""


def _check_review(review: _Review[T]) -> AdmissionRequest[T]:
    if review.kind != KIND or review.api_version != API_VERSION:
        version_and_kind = f"{review.api_version or 'no apiVersion'}, {review.kind or 'no kind'}"
        msg = f"expected apiVersion {API_VERSION}, kind {KIND}; found {shorten(version_and_kind)}"
        raise BadReview(msg)
    request = review.request
    if request is None:
        msg = "the AdmissionReview has no request: send one as kube-apiserver does"
        raise BadReview(msg)
    if not request.uid:
        msg = "request.uid is empty: every AdmissionReview needs its own"
        raise BadReview(msg)
    # A forged request may have a uid of megabytes, which answers and log lines would repeat.
    if len(request.uid) > _UID_MAX or len(request.namespace or "") > DNS_LABEL_MAX:
        msg = f"request.uid or request.namespace is longer than {DNS_LABEL_MAX} characters"
        raise BadReview(msg)
    kind, resource = request.kind, request.resource
    # The kind of a subresource differs from that of its resource, such as Binding of pods.
    if request.sub_resource:
        return request
    expected = _RESOURCES.get((kind.group, kind.kind), resource.resource)
    expected_kind = _KINDS.get((resource.group, resource.resource), kind.kind)
    if (
        expected != resource.resource
        or expected_kind != kind.kind
        or (kind.group, kind.version) != (resource.group, resource.version)
    ):
        msg = (
            f"request.kind and request.resource disagree: {kind.group}/{kind.version} {kind.kind} "
            "is not a "
            f"{resource.group}/{resource.version} {resource.resource}"
        )
        raise BadReview(msg)
    return request


AUDIT_IDENTITY: Final = "identity"
"""The audit annotation with the identity of a worker: `<group>/<replica>/<host>`."""
AUDIT_RULES: Final = "rules"
"""The audit annotation with the rules that denied an object or warned."""


def encode(request: AdmissionRequest[Any], answer: Answer) -> bytes:
    """Return the AdmissionReview with `answer` as its response."""
    denied, patch = bool(answer.causes), None if answer.causes else answer.patch
    response = _Response(
        request.uid,
        not denied,
        status=_status(request, answer) if denied else None,
        # The API server refuses a patchType without a patch, and a patch without a patchType.
        patch_type=None if patch is None else "JSONPatch",
        patch=patch,  # msgspec encodes bytes as base64
        warnings=_warnings(answer.warnings) if answer.warnings else None,
        audit_annotations=_build_audit_annotations(answer) or None,
    )
    return _encoder.encode(_Answered(response))


def _build_audit_annotations(answer: Answer) -> dict[str, str]:
    """Return the audit annotations of a response; the API server prefixes each key with the
    webhook's name.

    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
    """
    annotations = {}
    if (place := answer.place) is not None:
        annotations[AUDIT_IDENTITY] = f"{place.group}/{place.replica}/{place.host}"
    if rules := answer.rules + answer.warned:
        annotations[AUDIT_RULES] = ", ".join(rules)
    return annotations


def _status(request: AdmissionRequest[Any], answer: Answer) -> _Status:
    """Return the Status of a denial. Its last cause ends with a line that names the webhook, and
    where to learn more: kubectl prints only the causes, and events only the message.

    Other forms say less to users of kubectl (1.30, 1.32 and 1.37 are the same): with a kind and no
    causes it prints no reason; a cause without a field appears as an entry that starts with a
    colon; without details, or with the reason Forbidden, the name of the object is missing.
    """
    *other_causes, last = (
        Cause(cause.reason, one_line(cause.message), one_line(cause.field))
        for cause in answer.causes
    )
    last_message = f"{last.message}\n{REFUSED}{EXPLAIN + answer.rules[0] if answer.rules else ''}"
    causes = (*other_causes, Cause(last.reason, last_message, last.field))
    lines = [
        f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes
    ]
    message = (
        lines[0]
        if len(lines) == 1
        else "\n".join((f"{len(lines)} problems:", *(f"- {line}" for line in lines)))
    )
    details = _Details(request.name or "", request.kind.group, request.kind.kind, causes)
    if last.reason == DISRUPTION:
        return _Status("Failure", message, reason="TooManyRequests", code=TOO_MANY, details=details)
    return _Status("Failure", message, reason="Invalid", code=UNPROCESSABLE, details=details)


def _warnings(texts: Sequence[str]) -> list[str]:
    """Return the warnings without duplicates, with characters that the API server does not escape
    and without those that do not fit.
    """
    lines = map(one_line, texts)
    short = (line if len(line) <= WARNING_MAX else f"{line[: WARNING_MAX - 1]}…" for line in lines)
    return [*dict.fromkeys(short)][:WARNINGS_MAX]
