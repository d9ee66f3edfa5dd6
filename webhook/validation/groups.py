"""Rules of worker groups: names, hosts, replicas, and the labels of host identities."""

from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.api import names
from webhook.api.formats import (
    DNS_LABEL_MAX,
    LABEL_VALUE_MAX,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    shorten,
)
from webhook.api.objects import GROUPS_MAX, RAYCLUSTER_WRITTEN_BYTES_MAX
from webhook.api.review import DUPLICATE, FORBIDDEN, REQUIRED
from webhook.groups.group_config import too_large
from webhook.groups.identity import MAX_HOSTS, MAX_REPLICAS
from webhook.groups.naming import (
    REPLICA_NAME_GROUP_MAX,
    headless_service,
    host_name,
    host_prefix,
    long_nodename,
    pod_prefix,
)
from webhook.manifest.kuberay_pods import MOST_PODS
from webhook.validation.cluster import UNBOUNDED, ClusterSpec
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_SET_LABELS: Final = (
    *names.IDENTITY_LABELS,
    names.LABEL_LEGACY_REPLICA_INDEX,
    names.LABEL_COMPUTE_DOMAIN,
    names.LABEL_MARKED_FOR_DELETION,
)


def containers_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head or worker group whose template has no container.

    The first container runs Ray.
    """
    message = "containers is empty: add the container that runs Ray"
    for group in cluster.every_group:
        field = group.pod / "containers"
        if field.value is None or field.value == []:
            yield Fault(field, message, REQUIRED)


def too_many_groups(cluster: ClusterSpec) -> Iterator[Fault]:
    """More worker groups than the webhook reads.

    The duration of a review is bounded, so further groups are not read, and their workers are
    refused; KubeRay would need minutes for them too.

    https://github.com/ray-project/kuberay/pull/5132
    """
    field, advice = cluster.field / "workerGroupSpecs", "use fewer, with more replicas"
    if field.size > GROUPS_MAX:
        problem = f"{field.size} worker groups, of which the first {GROUPS_MAX} are read"
        yield Fault(field, f"{problem}: {advice}")


def raycluster_too_large(cluster: ClusterSpec) -> Iterator[Fault]:
    """A RayCluster of more than 320 KiB with its labels and annotations, as JSON.

    With its status and managed fields it may have 384 KiB. The webhook reads no larger one, because
    it would delay the reviews of all other pods, so it refuses the workers of this one. The API
    server stores objects of up to 1.5 MiB.

    https://etcd.io/docs/v3.5/dev-guide/limit/
    """
    parts = (cluster.field.value, cluster.annotations, cluster.labels)
    size = sum(len(msgspec.json.encode(part)) for part in parts)
    if size > RAYCLUSTER_WRITTEN_BYTES_MAX:
        problem = too_large(size, RAYCLUSTER_WRITTEN_BYTES_MAX)
        yield Fault(cluster.field, f"the RayCluster {problem}")


def too_many_pods(cluster: ClusterSpec) -> Iterator[Fault]:
    """More pods than Kubernetes supports in one cluster.

    KubeRay creates pods until a quota, the nodes or etcd are exhausted, and other workloads in the
    Kubernetes cluster suffer. Usually a number of replicas has too many digits.

    https://kubernetes.io/docs/setup/best-practices/cluster-large/
    """
    hosts = ((group, min(max(group.hosts, 0), MAX_HOSTS)) for group in cluster.groups)
    pods = 1 + sum(group.scale.desired * number for group, number in hosts)
    if pods > MOST_PODS:
        problem = f"{pods} pods, but a Kubernetes cluster has at most {MOST_PODS}"
        field = cluster.field / "workerGroupSpecs"
        yield Fault(field, f"{problem}: lower replicas, or numOfHosts")


def group_name_duplicate(cluster: ClusterSpec) -> Iterator[Fault]:
    """Two worker groups with the same name.

    KubeRay selects the pods of a group by its name, so each of the two groups deletes the pods of
    the other, repeatedly.

    https://github.com/ray-project/kuberay/issues/718
    """
    group_names = set()
    for group in cluster.groups:
        if group.name in group_names:
            message = f"another worker group has groupName {group.name}: rename one of the two"
            yield Fault(group.field / "groupName", message, DUPLICATE)
        group_names.add(group.name)


def group_host_names_duplicate(cluster: ClusterSpec) -> Iterator[Fault]:
    """Two worker groups whose hosts have the same host names.

    Host names are in lower case and have at most 63 characters, so groups such as `TPU` and `tpu`
    share their host names, and with them `TPU_WORKER_HOSTNAMES` and `MASTER_ADDR`. Groups whose
    hosts need no names are exempt.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-hostname-and-subdomain-field
    """
    names_by_prefix: dict[str, str] = {}
    for group in cluster.groups:
        if not group.needs_names:
            continue
        other = names_by_prefix.setdefault(host_prefix(group.name, 0)[:DNS_LABEL_MAX], group.name)
        if other != group.name:
            both = f"groups {shorten(group.name)} and {shorten(other)}"
            problem = f"hosts of {both} would have the same names"
            yield Fault(group.field / "groupName", f"{problem}: rename one", DUPLICATE)


def group_name_reserved(cluster: ClusterSpec) -> Iterator[Fault]:
    """A worker group with the name of the head's group.

    KubeRay labels the head `ray.io/group=headgroup`, so it counts the head as a worker of this
    group, and may delete it.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
    (`RayNodeHeadGroupLabelValue`)
    """
    for group in cluster.groups:
        if group.name == names.HEAD_GROUP:
            message = f"groupName is {names.HEAD_GROUP}, which is the head's: use another name"
            yield Fault(group.field / "groupName", message)


def group_name_invalid(cluster: ClusterSpec) -> Iterator[Fault]:
    """A group name that cannot be a label value, or part of a pod's name.

    The group's name is part of the label `ray.io/group` and of the names of pods; Kubernetes
    refuses each pod.

    https://github.com/ray-project/kuberay/issues/5144
    """
    for group in cluster.groups:
        name, field = group.name, group.field / "groupName"
        if not name:
            # KubeRay accepts a single group of single hosts without a name
            if not field.given or len(cluster.groups) > 1 or group.hosts > 1:
                yield Fault(field, "groupName is empty: write a name", REQUIRED)
            continue
        if len(name) > LABEL_VALUE_MAX:
            advice = f"use at most {LABEL_VALUE_MAX}, as it is a label of pods"
            yield Fault(field, f"groupName has {len(name)} characters: {advice}")
        elif not _fits_pod_name(cluster, name):
            problem = f"groupName {name!r} cannot be part of a pod's name"
            yield Fault(field, f"{problem}: use letters, digits and '-' inside")


def _fits_pod_name(cluster: ClusterSpec, name: str) -> bool:
    """Return whether a group's name fits into the label and the names of its pods."""
    # An invalid name of the RayCluster is reported by another rule
    is_subdomain = is_dns_subdomain(cluster.name)
    pod = f"{pod_prefix(cluster.name, name)}xxxxx" if is_subdomain else name.lower()
    return is_label_value(name) and is_dns_subdomain(pod)


def group_name_no_host_name(cluster: ClusterSpec) -> Iterator[Fault]:
    """A group whose name is too long or unfit for the host names and replica names that it needs.

    Hosts of a replica, and of a job over several slices, resolve each other as
    `<group>-<replica>-<host>`, a DNS label of at most 63 characters, and KubeRay labels each
    replica of several hosts `<group>-<5 characters>`. The largest index that `maxReplicas` allows
    must fit too.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`DefaultWorkerPodTemplate`)
    """
    for group in cluster.groups:
        name, hosts = group.name, group.hosts
        if not group.needs_names or not 1 <= hosts <= MAX_HOSTS or not is_label_value(name):
            continue
        last_replica = min(group.scale.max_replicas or 0, MAX_REPLICAS) - 1
        last = host_name(name, max(last_replica, 0), hosts - 1)
        if hosts > 1 and len(name) > REPLICA_NAME_GROUP_MAX:
            advice = f"use at most {REPLICA_NAME_GROUP_MAX} with numOfHosts above 1"
            message = f"groupName has {len(name)} characters: {advice}"
        elif len(last) > DNS_LABEL_MAX:
            advice = "shorten groupName, or lower maxReplicas"
            message = f"host names such as {last} exceed {DNS_LABEL_MAX} characters: {advice}"
        elif _fits_pod_name(cluster, name) and not is_dns_label(last):  # else see above
            message = f"{name!r} cannot be part of a host name: use letters, digits and '-' only"
        else:
            continue
        yield Fault(group.field / "groupName", message)


def fqdn_too_long(cluster: ClusterSpec) -> Iterator[Fault]:
    """A pod with its FQDN as host name, where that is too long for the kernel.

    The kubelet cannot start the pod. The FQDN consists of the host name, the headless service, the
    namespace and the domain of the Kubernetes cluster, which is assumed to be `cluster.local`.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-sethostnameasfqdn-field
    """
    namespace = (cluster.meta / "namespace").text or "default"
    for group in cluster.groups:
        field = group.pod / "setHostnameAsFQDN"
        if field.flag and group.needs_names and 1 <= group.hosts <= MAX_HOSTS:
            service = (group.pod / "subdomain").text or headless_service(cluster.name)
            last = host_name(group.name, max(group.scale.desired, 1) - 1, group.hosts - 1)
            if problem := long_nodename(last, service, namespace):
                yield Fault(field, problem)


def num_of_hosts_invalid(cluster: ClusterSpec) -> Iterator[Fault]:
    """A number of hosts below 1, or above the maximum of a replica.

    An explicit 0 creates no pods and deletes existing ones; a negative number crashes KubeRay's
    reconciler.

    https://github.com/ray-project/kuberay/issues/2084
    """
    for group in cluster.groups:
        if not 1 <= group.hosts <= MAX_HOSTS:
            message = f"numOfHosts is {group.hosts}: write 1 to {MAX_HOSTS}"
            yield Fault(group.field / "numOfHosts", message)


def replica_bounds_invalid(cluster: ClusterSpec) -> Iterator[Fault]:
    """Bounds of replicas that are negative or contradict each other.

    KubeRay refuses the whole RayCluster and creates no pods.
    """
    for group in cluster.groups:
        low, high = group.scale.min_replicas or 0, group.scale.max_replicas or 0
        if low < 0:
            yield Fault(group.field / "minReplicas", f"minReplicas is {low}: write 0 or more")
        if high < 0:
            yield Fault(group.field / "maxReplicas", f"maxReplicas is {high}: write 0 or more")
        elif low > high:
            message = (
                f"minReplicas is {low}, above maxReplicas {high}: lower it, or raise the other"
            )
            yield Fault(group.field / "minReplicas", message)


def replicas_out_of_bounds(cluster: ClusterSpec) -> Iterator[Fault]:
    """A number of replicas that KubeRay silently changes to fit its bounds.

    The number of pods differs from the one requested. Replicas of 0, the API server's default,
    count as not set.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    (`GetWorkerGroupDesiredReplicas`)
    """
    for group in cluster.groups:
        scale = group.scale
        replicas, low, high = scale.replicas, scale.min_replicas or 0, scale.max_replicas or 0
        if replicas and 0 <= low <= high and not low <= replicas <= high:
            problem = f"replicas is {replicas}, so KubeRay takes {scale.desired}"
            allowed = f"{low} to {high}" if low < high else low
            advice = f"write {allowed}, or change the bounds"
            yield Fault(group.field / "replicas", f"{problem}: {advice}")


def zero_replicas_raised(ray_object: RayObject) -> Iterator[Fault]:
    """Replicas of 0 in a file, below the minimum of the group.

    KubeRay takes the minimum, so the group has pods from the start. The API server's default is 0
    as well, so that only a file shows whether the number was written.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    (`GetWorkerGroupDesiredReplicas`)
    """
    for group in ray_object.cluster.groups if ray_object.cluster else ():
        scale, field = group.scale, group.field / "replicas"
        if scale.replicas == 0 and scale.desired > 0:
            message = (
                f"0, so KubeRay takes {scale.desired}: write {scale.desired}, or minReplicas 0"
            )
            yield Fault(field, message)


def max_replicas_unbounded(cluster: ClusterSpec) -> Iterator[Fault]:
    """An autoscaled group without an upper bound.

    The CRD's default is 2147483647: a single runaway job can fill the Kubernetes cluster.

    https://github.com/ray-project/kuberay/issues/1963
    """
    message = "maxReplicas is not set, but the group autoscales: set an upper bound"
    for group in cluster.groups if cluster.autoscaling else ():
        if group.scale.max_replicas == UNBOUNDED:
            yield Fault(group.field / "maxReplicas", message)


def identity_label_in_template(ray_object: RayObject) -> Iterator[Fault]:
    """A label in a pod template that this webhook, its controller or KubeRay sets on pods.

    The labels of an identity give the replica index and the host index of a pod. With a label in
    the template, every pod has the same identity, and none works. The label `replicaIndex` of
    Google's webhook has the same effect, together with `TPU_WORKER_ID`; usually both were copied
    from a pod. On a head or a submitter, a label that anti-affinity of other tenants' pods selects
    keeps those pods off its node.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`DefaultWorkerPodTemplate`)
    """
    fields = [group.field for group in ray_object.cluster.every_group] if ray_object.cluster else []
    places = [field / "labels" for field in fields]
    templates = [field / "template" for field in fields]
    if ray_object.job is not None:
        templates.append(ray_object.job.field / "submitterPodTemplate")
    places += [template / "metadata" / "labels" for template in templates]
    for labels in places:
        for label in _SET_LABELS if labels.value else ():
            if label in labels.map:
                message = f"pods get {label} from KubeRay or this webhook: remove it"
                yield Fault(labels.key(label), message, FORBIDDEN)
