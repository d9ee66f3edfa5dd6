"""The templates of a Ray object, as the pods that KubeRay creates from them.

https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/common/pod.go
(`DefaultHeadPodTemplate`, `DefaultWorkerPodTemplate`, `BuildPod`)
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from webhook.api.formats import is_dns_subdomain
from webhook.api.objects import GROUPS_MAX
from webhook.api.review import DUPLICATE, REQUIRED
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.containers import PADDED, is_padded, source_of
from webhook.validation.pods.families import IMAGES, NAMES, PORTS, VARIABLES
from webhook.validation.pods.fields import CONTAINER, TEMPLATE
from webhook.validation.pods.inspection import InspectedPod, walk, whole, wrong
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


def head_and_workers(cluster: ClusterSpec, *, sidecar: bool = False) -> Iterator[InspectedPod]:
    """Yield the pods of a RayCluster, with their problems. With `sidecar`, a container in the head
    submits a RayJob.
    """
    autoscaling = cluster.autoscaling
    forced = autoscaling and cluster.v2_on
    added = tuple(name for option, name in _MOUNTED.items() if (cluster.field / option).given)
    if (cluster.field / "authOptions" / "enableK8sTokenAuth").flag:
        added = (*added, _TOKEN_VOLUME)
    head = _pod(cluster.head, forced=forced or sidecar, account=autoscaling)
    head.added = (*added, _LOGS) if autoscaling else added
    head.taken = dict.fromkeys([_AUTOSCALER] * autoscaling + [_SUBMITTER] * sidecar, True)
    for fault in _head_names(head, cluster):
        head.report(NAMES, fault)
    yield _inspect_pod(head)
    if autoscaling:
        yield _autoscaler(cluster, head)
    yield from _options(cluster)
    for group in islice(cluster.groups, GROUPS_MAX):
        pod = _pod(group, forced=forced)
        pod.added, pod.taken = added, _ADDED_TO_WORKERS
        yield _inspect_pod(pod)


def submitter(template: Field) -> InspectedPod:
    """Return the pod of the Job that submits a RayJob. Another rule checks the restart policy of
    this Job.
    """
    pod = InspectedPod(_without(template, "restartPolicy"))
    pod.never = (template / "spec" / "restartPolicy").text == _NEVER
    walk(pod.template, TEMPLATE, pod)
    return pod


def _pod(group: GroupSpec, *, forced: bool, account: bool = False) -> InspectedPod:
    """Return the pod of a group. KubeRay sets the restart policy with `forced`, and the service
    account with `account`.
    """
    # What KubeRay overwrites never reaches the API server, whatever the template has.
    overwritten = ["restartPolicy"] * forced + ["serviceAccountName"] * account
    pod = InspectedPod(_without(group.field / "template", *overwritten))
    pod.never = forced or (pod.spec / "restartPolicy").text == _NEVER
    pod.shared_memory = _PLASMA not in group.params
    return pod


def _without(template: Field, *names: str) -> Field:
    """Return a template without some fields of its spec."""
    spec = (template / "spec").map
    if spec.keys().isdisjoint(names):
        return template
    remaining_fields = {name: value for name, value in spec.items() if name not in names}
    return Field({**template.map, "spec": remaining_fields}, template.parent, template.token)


def _inspect_pod(pod: InspectedPod) -> InspectedPod:
    walk(pod.template, TEMPLATE, pod)
    for fault in _metrics_port(pod) if (pod.spec / "hostNetwork").flag else ():
        pod.report(PORTS, fault)
    return pod


def _metrics_port(pod: InspectedPod) -> Iterator[Fault]:
    """Report a port that conflicts with the metrics port that KubeRay adds."""
    listed = [(container / "ports").entries() for container in (pod.spec / "containers").entries()]
    ports = [list(entries) for entries in listed]
    # KubeRay adds its port only if Ray's container has none of this name.
    if ports and any((port / "name").text == _METRICS[0] for port in ports[0]):
        return
    for port in chain.from_iterable(ports):
        number = whole(port / "hostPort") or whole(port / "containerPort")
        tcp = (port / "protocol").text in ("", "TCP")
        if number == _METRICS[1] and tcp and not (port / "hostIP").text:
            message = f"KubeRay adds host port {number}: name this one {_METRICS[0]}"
            yield Fault(port, message, DUPLICATE)


def _head_names(head: InspectedPod, cluster: ClusterSpec) -> Iterator[Fault]:
    """Report a name of the head, and a service account that KubeRay cannot create, by the name that
    it derives.
    """
    name, account = head.template / "metadata" / "name", cluster.head.pod / "serviceAccountName"
    if name.text and not is_dns_subdomain(name.text):
        yield wrong(name, SUBDOMAIN_ADVICE)
    account_name = account.text[-_NAME_KEPT:] if cluster.autoscaling else ""
    if account_name and not account_name[0].isalpha():
        # As KubeRay's `CheckName` does.
        account_name = f"r{account_name[1:]}"
    if account_name and not is_dns_subdomain(account_name):
        yield wrong(account, SUBDOMAIN_ADVICE)


def _autoscaler(cluster: ClusterSpec, head: InspectedPod) -> InspectedPod:
    """Return the container that KubeRay adds to the head for the autoscaler."""
    pod = InspectedPod(cluster.options)
    pod.volumes_seen = {**head.volumes}
    walk(pod.template, CONTAINER, pod)
    image = pod.template / "image"
    if image.value == "":
        message = "image is empty: remove it, or name an image"
        pod.report(IMAGES, Fault(image, message, REQUIRED))
    elif is_padded(image):
        pod.report(IMAGES, Fault(image, PADDED))
    return pod


def _options(cluster: ClusterSpec) -> Iterator[InspectedPod]:
    """Yield the options of the cluster from which KubeRay derives variables of pods."""
    pod = InspectedPod(cluster.field / "gcsFaultToleranceOptions")
    for name in ("redisPassword", "redisUsername"):
        entry = pod.template / name
        for fault in source_of(entry) if type((entry / "valueFrom").value) is dict else ():
            pod.report(VARIABLES, fault)
    yield pod
    auth = cluster.field / "authOptions"
    secret = auth / "secretName"
    if secret.text and (auth / "mode").text == "token" and not is_dns_subdomain(secret.text):
        pod = InspectedPod(auth)
        pod.report(VARIABLES, wrong(secret, SUBDOMAIN_ADVICE))
        yield pod
