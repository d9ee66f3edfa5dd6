"""The templates of a Ray object, as the pods that KubeRay creates from them.

https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/common/pod.go
(`DefaultHeadPodTemplate`, `DefaultWorkerPodTemplate`, `BuildPod`)
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from webhook.api.formats import is_dns_subdomain
from webhook.api.review import DUPLICATE, REQUIRED
from webhook.validation.cluster import GROUPS_MAX, Cluster, Group
from webhook.validation.field import Field
from webhook.validation.pods.containers import padded_image, source_of
from webhook.validation.pods.families import IMAGES, NAMES, PORTS, VARIABLES
from webhook.validation.pods.fields import CONTAINER, TEMPLATE
from webhook.validation.pods.inspection import Pod, entries, mapping, number_in, text_of, walk
from webhook.validation.pods.value_checks import SUBDOMAIN_ADVICE

_NEVER: Final = "Never"
_LOGS: Final = "ray-logs"
_TOKEN_VOLUME: Final = "ray-token"  # noqa: S105 - the name of a volume
_PLASMA: Final = "plasma-directory"
_AUTOSCALER: Final = "autoscaler"
_SUBMITTER: Final = "ray-job-submitter"
_ADDED_TO_WORKERS: Final = {"wait-gcs-ready": False}
"""An operator with ENABLE_INIT_CONTAINER_INJECTION=false adds no container."""
_MOUNTED: Final = {
    "tlsOptions": "ray-tls",
    "gcsFaultToleranceOptions": "gcs-storage",
    "historyServerOptions": _LOGS,
}
"""The volumes that KubeRay adds for options of the cluster."""
_METRICS: Final = ("metrics", 8080)
_NAME_KEPT: Final = 50
"""Number of characters that KubeRay keeps of the name of the head's service account."""


def head_and_workers(cluster: Cluster, *, sidecar: bool = False) -> Iterator[Pod]:
    """Yield the pods of a RayCluster, with their problems. With `sidecar`, a container in the head
    submits a RayJob.
    """
    autoscaling = cluster.autoscaling
    forced = autoscaling and cluster.v2_on
    spec = cluster.field.map
    added = tuple(name for option, name in _MOUNTED.items() if spec.get(option) is not None)
    if mapping(spec.get("authOptions")).get("enableK8sTokenAuth") is True:
        added = (*added, _TOKEN_VOLUME)
    head = _head(cluster.head, added, forced=forced or sidecar, autoscaling=autoscaling)
    if sidecar:
        head.taken = {**head.taken, _SUBMITTER: True}
    yield _walked(head)
    if autoscaling:
        yield _autoscaler(cluster, head)
    yield from _options(cluster)
    for group in islice(cluster.groups, GROUPS_MAX):
        place = group.field / "template"
        pod = Pod(place, _kept(place, forced=forced))
        pod.taken, pod.added = _ADDED_TO_WORKERS, added
        pod.never = forced or pod.spec.get("restartPolicy") == _NEVER
        pod.shared_memory = _PLASMA not in group.params
        yield _walked(pod)


def submitter(template: Field) -> Pod:
    """Return the pod of the Job that submits a RayJob. Another rule checks the restart policy of
    this Job.
    """
    pod = Pod(template, _kept(template, forced=True))
    pod.never = mapping(template.map.get("spec")).get("restartPolicy") == _NEVER
    walk(pod.value, TEMPLATE, (), pod)
    return pod


def _walked(pod: Pod) -> Pod:
    walk(pod.value, TEMPLATE, (), pod)
    if pod.spec.get("hostNetwork") is True:
        _check_metrics(pod)
    return pod


def _kept(place: Field, *, forced: bool, account: bool = False) -> Mapping[str, Any]:
    """Return a template without the fields that KubeRay overwrites."""
    value = place.map
    spec = mapping(value.get("spec"))
    dropped = {
        name
        for name, overwritten in (("restartPolicy", forced), ("serviceAccountName", account))
        if overwritten and name in spec
    }
    if not dropped:
        return value
    return {**value, "spec": {name: each for name, each in spec.items() if name not in dropped}}


def _head(group: Group, added: tuple[str, ...], *, forced: bool, autoscaling: bool) -> Pod:
    place = group.field / "template"
    pod = Pod(place, _kept(place, forced=forced, account=autoscaling))
    pod.added = (*added, _LOGS) if autoscaling else added
    pod.taken = {_AUTOSCALER: True} if autoscaling else {}
    pod.never = forced or pod.spec.get("restartPolicy") == _NEVER
    pod.shared_memory = _PLASMA not in group.params
    if autoscaling:
        _check_account(text_of(mapping(place.map.get("spec")), "serviceAccountName"), pod)
    name = text_of(mapping(pod.value.get("metadata")), "name")
    if name and not is_dns_subdomain(name):
        pod.wrong(NAMES, ("metadata", "name"), name, SUBDOMAIN_ADVICE)
    return pod


def _check_metrics(pod: Pod) -> None:
    """Report a port that conflicts with the metrics port that KubeRay adds."""
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
    """Report a service account that KubeRay cannot create, by the name that it derives."""
    made = name[-_NAME_KEPT:]
    if made and not made[0].isalpha():
        made = f"r{made[1:]}"
    if made and not is_dns_subdomain(made):
        pod.wrong(NAMES, ("spec", "serviceAccountName"), name, SUBDOMAIN_ADVICE)


def _autoscaler(cluster: Cluster, head: Pod) -> Pod:
    """Return the container that KubeRay adds to the head for the autoscaler."""
    options = cluster.options
    pod = Pod(options, options.map)
    pod.volumes_seen = {**head.volumes}
    walk(pod.value, CONTAINER, (), pod)
    if pod.value.get("image") == "":
        pod.report(IMAGES, ("image",), "image is empty: remove it, or name an image", REQUIRED)
    padded_image(pod.value.get("image"), ("image",), pod)
    return pod


def _options(cluster: Cluster) -> Iterator[Pod]:
    """Yield the options of the cluster from which KubeRay derives variables of pods."""
    options = cluster.field / "gcsFaultToleranceOptions"
    if options.given:
        pod = Pod(options, options.map)
        for name in ("redisPassword", "redisUsername"):
            entry = mapping(pod.value.get(name))
            if type(entry.get("valueFrom")) is dict:
                source_of(entry, entry["valueFrom"], (name,), pod)
        yield pod
    auth = cluster.field / "authOptions"
    secret = (auth / "secretName").text
    if secret and (auth / "mode").text == "token" and not is_dns_subdomain(secret):
        pod = Pod(auth, auth.map)
        pod.wrong(VARIABLES, ("secretName",), secret, SUBDOMAIN_ADVICE)
        yield pod
