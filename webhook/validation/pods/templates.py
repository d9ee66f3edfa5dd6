"""The templates of a Ray object, as the pods that KubeRay makes of them.

https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/common/pod.go
(`DefaultHeadPodTemplate`, `DefaultWorkerPodTemplate`, `BuildPod`)
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from webhook.kube.review import DUPLICATE, REQUIRED
from webhook.kube.shapes import is_dns_subdomain
from webhook.validation.cluster import GROUPS_MAX, Cluster, Group
from webhook.validation.field import Field
from webhook.validation.pods.containers import (
    IMAGES,
    NAMES,
    PORTS,
    VARIABLES,
    padded_image,
    source_of,
)
from webhook.validation.pods.fields import CONTAINER, TEMPLATE
from webhook.validation.pods.inspection import (
    Pod,
    entries,
    mapping,
    number_in,
    shown,
    text_of,
    walk,
)
from webhook.validation.pods.values import SUBDOMAIN_ADVICE

_NEVER: Final = "Never"
_SHARED_MEMORY: Final = ("shared-mem", "/dev/shm")  # noqa: S108 - KubeRay mounts it there
_LOGS: Final = ("ray-logs", "/tmp/ray")  # noqa: S108 - KubeRay mounts it there
_PLASMA: Final = "plasma-directory"
_AUTOSCALER: Final = "autoscaler"
_SUBMITTER: Final = "ray-job-submitter"
_WAITS: Final = "wait-gcs-ready"
_METRICS: Final = ("metrics", 8080)
_LABELS: Final = frozenset({
    "ray.io/cluster", "ray.io/group", "ray.io/node-type", "ray.io/is-ray-node", "ray.io/identifier",
    "app.kubernetes.io/name", "app.kubernetes.io/created-by",
})  # fmt: skip
"""The labels that KubeRay gives every pod."""
_NAME_KEPT: Final = 50
"""Characters that KubeRay keeps of the name of the head's service account."""


def head_and_workers(cluster: Cluster, *, sidecar: bool = False) -> Iterator[Pod]:
    """Yield the pods of a RayCluster, with what is wrong with them. A `sidecar` submits a RayJob
    from within the head.
    """
    head = _pod(cluster, cluster.head, sidecar=sidecar)
    yield head
    if cluster.autoscaling:
        yield _autoscaler(cluster, head)
    yield from _options(cluster)
    for group in islice(cluster.groups, GROUPS_MAX):
        yield _pod(cluster, group)


def submitter(template: Field) -> Pod:
    """Return the pod of the Job that submits a RayJob."""
    pod = _read(template, "the submitter", template.map)
    pod.of_job = True
    walk(pod.value, TEMPLATE, (), pod)
    return pod


def _read(place: Field, title: str, value: Mapping[str, Any]) -> Pod:
    spec = mapping(value.get("spec"))
    labels = mapping(mapping(value.get("metadata")).get("labels"))
    never = spec.get("restartPolicy") == _NEVER
    pod = Pod(place, title, value, never=never, labels=frozenset(labels))
    if spec.get("volumes"):
        pod.volumes = {text_of(each, "name"): each for _, each in entries(spec["volumes"])}
    if spec.get("resourceClaims"):
        listed = entries(spec["resourceClaims"])
        pod.claims = frozenset(text_of(each, "name") for _, each in listed)
    return pod


def _pod(cluster: Cluster, group: Group, *, sidecar: bool = False) -> Pod:
    head = group is cluster.head
    place = group.field / "template"
    value: Mapping[str, Any] = place.map
    spec = mapping(value.get("spec"))
    forced = sidecar or (cluster.autoscaling and cluster.v2_on)
    dropped = [name for name in ("restartPolicy",) if forced and name in spec]
    account = head and cluster.autoscaling
    dropped += [name for name in ("serviceAccountName",) if account and name in spec]
    if dropped:
        value = {
            **value,
            "spec": {name: each for name, each in spec.items() if name not in dropped},
        }
    pod = _read(place, "the head" if head else f'worker group "{group.name[:63]}"', value)
    pod.never |= forced
    _add_volumes(cluster, group, pod, head=head)
    pod.labels |= _LABELS | (group.field / "labels").map.keys()
    walk(value, TEMPLATE, (), pod)
    _check_added(cluster, pod, head=head, sidecar=sidecar)
    if account and "serviceAccountName" in dropped:
        _check_account(text_of(spec, "serviceAccountName"), pod)
    return pod


def _add_volumes(cluster: Cluster, group: Group, pod: Pod, *, head: bool) -> None:
    """Add the volumes that KubeRay adds, so that they may be mounted."""
    first = next((each for _, each in entries(pod.spec.get("containers"))), {})
    paths = {text_of(mount, "mountPath") for _, mount in entries(first.get("volumeMounts"))}
    added = []
    if _PLASMA not in group.params and _SHARED_MEMORY[1] not in paths:
        added.append(_SHARED_MEMORY[0])
    if head and cluster.autoscaling:
        added.append(_LOGS[0])
    added += [name for option, name in _MOUNTED.items() if (cluster.field / option).given]
    for name in added:
        pod.volumes.setdefault(name, {})


_MOUNTED: Final = {
    "authOptions": "ray-token",
    "tlsOptions": "ray-tls",
    "gcsFaultToleranceOptions": "gcs-storage",
    "historyServerOptions": "ray-logs",
}
"""The volumes that KubeRay adds for options of the cluster."""


def _check_added(cluster: Cluster, pod: Pod, *, head: bool, sidecar: bool) -> None:
    """Report what gets in the way of the containers and ports that KubeRay adds."""
    taken = {_AUTOSCALER} if head and cluster.autoscaling else set()
    taken |= {_SUBMITTER} if sidecar else set()
    for kind in ("containers", "initContainers"):
        for index, container in entries(pod.spec.get(kind)):
            name = text_of(container, "name")
            place = ("spec", kind, index, "name")
            if name in taken:
                text = f"KubeRay adds a container {shown(name)}: rename this one"
                pod.report(NAMES, place, text, DUPLICATE)
            elif name == _WAITS and not head:
                # An operator may run with ENABLE_INIT_CONTAINER_INJECTION=false
                text = f"KubeRay adds an init container {shown(name)}: rename this one"
                pod.report(NAMES, place, text, DUPLICATE, doubtful=True)
    if pod.spec.get("hostNetwork") is True:
        _check_metrics(pod)
    name = text_of(mapping(pod.value.get("metadata")), "name")
    if head and name and not is_dns_subdomain(name):
        pod.report(NAMES, ("metadata", "name"), f"name is {shown(name)}: {SUBDOMAIN_ADVICE}")


def _check_metrics(pod: Pod) -> None:
    """Report a port that collides with the one that KubeRay adds for metrics."""
    listed = entries(pod.spec.get("containers"))
    first = listed[0][1] if listed else {}
    if any(text_of(port, "name") == _METRICS[0] for _, port in entries(first.get("ports"))):
        return
    for index, container in listed:
        for at, port in entries(container.get("ports")):
            number = number_in(port, "hostPort") or number_in(port, "containerPort")
            tcp = (text_of(port, "protocol") or "TCP") == "TCP"
            if number == _METRICS[1] and tcp and not text_of(port, "hostIP"):
                text = f"KubeRay adds host port {number}: name this one {_METRICS[0]}"
                pod.report(PORTS, ("spec", "containers", index, "ports", at), text, DUPLICATE)


def _check_account(name: str, pod: Pod) -> None:
    """Report an account that KubeRay cannot create, by the name that it makes of it."""
    made = name[-_NAME_KEPT:]
    if made and not made[0].isalpha():
        made = f"r{made[1:]}"
    if made and not is_dns_subdomain(made):
        text = f"serviceAccountName is {shown(name)}: {SUBDOMAIN_ADVICE}"
        pod.report(NAMES, ("spec", "serviceAccountName"), text)


def _autoscaler(cluster: Cluster, head: Pod) -> Pod:
    """Return the container that KubeRay adds to the head by the options of the autoscaler."""
    options = cluster.options
    pod = Pod(options, "the autoscaler", options.map, volumes=head.volumes, claims=head.claims)
    walk(pod.value, CONTAINER, (), pod)
    if pod.value.get("image") == "":
        pod.report(IMAGES, ("image",), "image is empty: remove it, or name an image", REQUIRED)
    padded_image(pod.value.get("image"), ("image",), pod)
    return pod


def _options(cluster: Cluster) -> Iterator[Pod]:
    """Yield the options of the cluster from which KubeRay makes variables of pods."""
    options = cluster.field / "gcsFaultToleranceOptions"
    if options.given:
        pod = Pod(options, "fault tolerance", options.map)
        for name in ("redisPassword", "redisUsername"):
            entry = mapping(pod.value.get(name))
            if type(entry.get("valueFrom")) is dict:
                source_of(entry, entry["valueFrom"], (name,), pod)
        yield pod
    auth = cluster.field / "authOptions"
    secret = (auth / "secretName").text
    if secret and (auth / "mode").text == "token" and not is_dns_subdomain(secret):
        pod = Pod(auth, "authentication", auth.map)
        text = f"secretName is {shown(secret)}: {SUBDOMAIN_ADVICE}"
        pod.report(VARIABLES, ("secretName",), text)
        yield pod
