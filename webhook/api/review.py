"""The values of an `admission.k8s.io/v1` AdmissionReview: request and response."""

from typing import Final, Generic, TypeVar

from msgspec import Struct

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

T = TypeVar("T")


class GroupVersionKind(Struct, frozen=True, gc=False):
    """`request.kind`."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Struct, frozen=True, gc=False):
    """`request.resource`."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Struct, frozen=True, gc=False):
    """The requesting user, or a service account as `system:serviceaccount:<namespace>:<name>`."""

    username: str = ""


ANONYMOUS: Final = UserInfo()


class AdmissionRequest(Struct, Generic[T], rename="camel", frozen=True, gc=False):
    """The request. `object` is absent on DELETE, `old_object` on CREATE and CONNECT."""

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: str
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    dry_run: bool | None = None
    object: T | None = None
    old_object: T | None = None
    user_info: UserInfo = ANONYMOUS


class Cause(Struct, frozen=True, gc=False):
    """A reason of a denial, as in `status.details.causes`.

    `reason` is a Kubernetes cause type such as `FieldValueInvalid`, `field` a path such as
    `metadata.labels[ray.io/group]`.
    https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go (CauseType)
    """

    reason: str
    message: str
    field: str


INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
NOT_FOUND: Final = "FieldValueNotFound"
DUPLICATE: Final = "FieldValueDuplicate"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
DISRUPTION: Final = "DisruptionBudget"
"""Of an eviction that is possible later."""
CAUSE_TYPES: Final = frozenset(
    {INVALID, REQUIRED, NOT_FOUND, DUPLICATE, TYPE_INVALID, NOT_SUPPORTED, FORBIDDEN, DISRUPTION}
)


class WorkerIdentity(Struct, frozen=True, gc=False):
    """The identity of a worker, for log and audit."""

    cluster: str
    group: str
    replica: int
    host: int


class Answer(Struct, frozen=True, gc=False):
    """The response: allowed unless there are causes. `patch` is a JSON Patch (RFC 6902) as text, or
    None.

    `rules` are the validation rules that denied the object, `warned` those that warned, without
    duplicates. They and the `place` of a worker appear only in audit annotations and log.
    """

    causes: tuple[Cause, ...] = ()
    patch: bytes | None = None
    warnings: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    place: WorkerIdentity | None = None

    @property
    def allowed(self) -> bool:
        return not self.causes


ALLOWED: Final = Answer()


class Denied(Exception):  # noqa: N818 - named for what happened, as the API server reports it
    """The user's object cannot be admitted: answered with HTTP 200 and a denial with every cause.
    `rules` are the validation rules that report the same problem for the RayCluster.
    """

    def __init__(self, *causes: Cause, rules: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(dict.fromkeys(cause.message for cause in causes)))
        self.causes, self.rules = causes, rules


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The request body is not an AdmissionReview: HTTP 400. The message has the expected format."""


class NotNow(Exception):  # noqa: N818 - named for what it is
    """A review cannot be decided now: HTTP 503, and `failurePolicy` applies. The message has the
    cause.

    There is no Retry-After header, because the cause persists: the API server would retry until its
    timeout, and report the timeout instead of the message. `subject` names the object in the
    message.
    """

    subject = ""


class ClusterUnreadable(NotNow):
    """The API server did not answer in time."""
