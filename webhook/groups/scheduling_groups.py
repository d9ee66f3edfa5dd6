"""Gang scheduling: which pods of a RayCluster are scheduled all or none, and the name of their
PodGroup.

See docs/contributing/decisions/0016-pod-groups.md.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import DNS_LABEL_MAX, is_dns_label
from webhook.api.objects import Strings, TemplateSpec
from webhook.groups.annotations import CLUSTER, REPLICA, SCHEDULING_GROUP, WORKER_GROUP
from webhook.groups.naming import is_suffix

_DIGEST_LENGTH: Final = 8
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")
_WORKER: Final = re.compile("(?=-worker-)")
"""Where the name of a RayCluster may end and that of a group begin. KubeRay's own PodGroup is
`<cluster>-cluster`, an ending that no name of this webhook has.
"""

_POD_GROUP_MAX: Final = 253 - 1 - _DIGEST_LENGTH
"""Characters of the name of a group's PodGroup; leaves room for the suffix of a replica."""


class Gang(Struct, frozen=True, gc=False):
    """The gang scheduling that a RayCluster requests: a PodGroup for each `granularity`, or none.

    `unmet` is the unmet precondition for which its pods are not grouped, or empty.
    """

    granularity: str = ""
    unmet: str = ""

    @property
    def active(self) -> bool:
        return bool(self.granularity) and not self.unmet


NO_GANG: Final = Gang()


def read_gang(
    annotations: Strings, labels: Strings, templates: Sequence[TemplateSpec], *, autoscaling: bool
) -> Gang:
    """Return the gang scheduling of a RayCluster by its annotation; `templates` are those of the
    head and of the worker groups.
    """
    granularity = SCHEDULING_GROUP.read(annotations)
    if not granularity:
        return NO_GANG
    return Gang(granularity, _unmet(granularity, labels, templates, autoscaling=autoscaling))


def _unmet(
    granularity: str, labels: Strings, templates: Sequence[TemplateSpec], *, autoscaling: bool
) -> str:
    """Return the unmet precondition for grouping the pods of a RayCluster, short enough for a
    warning; empty if there is none.
    """
    if problem := SCHEDULING_GROUP.problem(granularity):
        return problem
    # A pod is in one PodGroup, and `spec.schedulingGroup` cannot be changed after creation.
    for label in (names.LABEL_GANG, *names.OTHER_SCHEDULER_LABELS):
        if label in labels:
            return f"label {label} selects another pod group; remove it or the annotation"
    for template in templates:
        if problem := find_incompatible_field(
            template.scheduler_name, template.eviction_responders
        ):
            return f"{problem}; remove it or the annotation"
    if autoscaling and granularity == CLUSTER:
        return f"autoscaling changes the number of pods; use {WORKER_GROUP} or {REPLICA}"
    if (
        granularity == CLUSTER
        and len({_read_common_fields(template) for template in templates}) > 1
    ):
        return f"priorityClassName or schedulerName differs between groups; use {WORKER_GROUP}"
    return ""


def find_incompatible_field(scheduler: str | None, responders: object) -> str:
    """Return the field of a pod's `spec` that is incompatible with a scheduling group, or an empty
    text.
    """
    if scheduler in names.BATCH_SCHEDULERS:
        return f"schedulerName {scheduler} creates pod groups of its own"
    return "Kubernetes 1.37 forbids it beside evictionResponders" if responders else ""


def _read_common_fields(template: TemplateSpec) -> tuple[str, str]:
    """Return the fields that all pods of a PodGroup must have in common, or it is never scheduled.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    return template.priority_class_name, template.scheduler_name or names.DEFAULT_SCHEDULER


def cluster_pod_group(cluster: str) -> str:
    """Return the name of the PodGroup of a whole RayCluster."""
    return _name_of(cluster, "all")


def head_pod_group(cluster: str) -> str:
    """Return the name of the PodGroup of the head."""
    return _name_of(cluster, "head")


def _name_of(cluster: str, ending: str) -> str:
    name = f"{cluster}-{ending}"
    if len(name) <= _POD_GROUP_MAX and not _WORKER.search(name):
        return name
    return _unique(name, _POD_GROUP_MAX, cluster, ending)


def group_pod_group(cluster: str, group: str) -> str:
    """Return the name of the PodGroup of a worker group: a DNS subdomain with room for the suffix
    of a replica.

    No other RayCluster, group or replica of the namespace has the same name: a name that is not
    valid, that can be read in two ways, or that ends like KubeRay's, a replica's or a digest, ends
    with a digest.
    """
    name = f"{cluster}-worker-{group}"
    last = name.rpartition("-")[2]
    plain = is_dns_label(group) and len(name) <= _POD_GROUP_MAX and last != CLUSTER
    if plain and len(_WORKER.findall(name)) == 1 and not (is_suffix(last) or _DIGEST.match(last)):
        return name
    return _unique(f"{cluster}-worker-{_clean(group)}", _POD_GROUP_MAX, cluster, group, "")


def replica_pod_group(cluster: str, group: str, replica_name: str) -> str:
    """Return the name of the PodGroup of a multi-host replica: that of its group, and the suffix of
    the replica name, or a digest if it has not KubeRay's format.
    """
    suffix = replica_name.removeprefix(f"{group}-")
    if suffix == replica_name or not is_suffix(suffix):
        suffix = _digest(cluster, group, replica_name)
    return f"{group_pod_group(cluster, group)}-{suffix}"


def workload_name(cluster: str) -> str:
    """Return the name of the Workload of a RayCluster. KubeRay's has the name of the RayCluster, so
    the dot prevents a conflict.
    """
    return f"{cluster}.gang"


HEAD_TEMPLATE: Final = "head"
CLUSTER_TEMPLATE: Final = "cluster"


def template_name(group: str) -> str:
    """Return the name of a worker group's template in the Workload: a DNS label."""
    name = f"worker-{group}"
    if is_dns_label(name) and not _DIGEST.match(name.rpartition("-")[2]):
        return name
    return _unique(_clean(name), DNS_LABEL_MAX, group)


def _clean(text: str) -> str:
    return "".join(
        character if character.isascii() and character.isalnum() else "-"
        for character in text.lower()
    )


def _unique(name: str, limit: int, *key: str) -> str:
    """Return a name of at most `limit` characters that ends with the digest of its key."""
    return f"{name[: limit - _DIGEST_LENGTH - 1].rstrip('-.')}-{_digest(*key)}"


def _digest(*key: str) -> str:
    return digest("\0".join(key))


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST_LENGTH // 2).hexdigest()
