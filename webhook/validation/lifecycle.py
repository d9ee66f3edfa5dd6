"""Rules of pods that are created, but cannot start or work, and of their termination."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import is_image, shorten
from webhook.api.quantity import read_quantity
from webhook.groups.annotations import DRAIN_SECONDS
from webhook.groups.drain_timeout import DEFAULT_GRACE, MARGIN, own_seconds, read_seconds
from webhook.validation.cluster import ClusterSpec, ContainerSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_IN_BYTES: Final = ("memory", "ephemeral-storage")
_MEBIBYTE: Final = 2**20
_DIGITS_MAX: Final = 6
_WITHOUT_UNIT: Final = re.compile(r"([0-9.]+|[0-9.]+[eE][+-]?[0-9]+)[num]?", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\$(\{\w+\}|\w+)")
_REFERENCE_MAX: Final = 1024
"""Characters of an image that are searched for brackets; references have up to 383."""
_FILL_IN: Final = re.compile(r"<[^>]*>|\{\{.*?\}\}|\[[^\]]*\]|\{[^}]*\}")
_SPOT: Final = re.compile(r"\b(spot|preemptible)\b", re.IGNORECASE)
_STOPS: Final = re.compile(r"\bray\s+stop\b")
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - where Ray keeps its objects
_MEMORY: Final = "Memory"
_HEAD_LEAST: Final = 500 * 2**20
"""Bytes below which the processes of a head do not fit: each is a Python process."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_ADDRESSES: Final = (names.MASTER_ADDR, names.PET_MASTER_ADDR)


def placeholder_unresolved(ray_object: RayObject) -> Iterator[Fault]:
    """An image with a placeholder such as `$TAG` that is never replaced.

    Neither KubeRay nor Kubernetes expands variables in images, so no node can pull the image.
    Replace the placeholder before you apply the file.

    https://kubernetes.io/docs/concepts/containers/images/#image-names
    """
    for image in _images(ray_object):
        if match := _PLACEHOLDER.search(image.text):
            yield Fault(image, f"image has the placeholder {shorten(match[0])}: replace it")


def image_reference_invalid(ray_object: RayObject) -> Iterator[Fault]:
    """An image that is not a reference of the form `HOST/PATH:TAG@DIGEST`.

    Examples are placeholders such as `<ACCOUNT>` or `{{ tag }}`, capital letters in the path, an
    address with `http://`, a tag that is empty or given twice, and a short digest. The API server
    accepts any text, and the pod stays in InvalidImageName.

    https://kubernetes.io/docs/concepts/containers/images/#image-names
    """
    for image in _images(ray_object):
        reference = image.text
        # Another rule reports these with a better remedy.
        reported = reference != reference.strip() or _PLACEHOLDER.search(reference)
        if reference and not reported and not is_image(reference):
            yield Fault(image, f"{shorten(reference)!r} is not an image: {_advice(reference)}")


def _advice(image: str) -> str:
    """Return what to write instead of an image that is not a reference."""
    name = image.partition("@")[0]
    path, protocol = name.rpartition("/")[2], image.partition("://")[0]
    fill_in = _FILL_IN.search(image[:_REFERENCE_MAX])
    advice = (
        (fill_in, f"replace {shorten(fill_in[0])}" if fill_in else ""),
        ("://" in image, f"remove {shorten(protocol)}://"),
        (any(map(str.isspace, image)), "remove the spaces"),
        ("@" in image and is_image(name), "write the digest as sha256: and 64 hexadecimal digits"),
        (path.endswith(":"), "add the tag, or remove the colon"),
        (path.count(":") > 1, "keep one tag"),
        (is_image(name.lower()), "write the path in lower case"),
    )
    return next((instruction for matches, instruction in advice if matches), "write HOST/PATH:TAG")


def _images(ray_object: RayObject) -> Iterator[Field]:
    cluster = ray_object.cluster
    for group in cluster.every_group if cluster is not None else ():
        for container in group.every_container:
            if container.image:
                yield container.field / "image"
    if cluster is not None and cluster.autoscaling:
        yield cluster.options / "image"
    if ray_object.job is not None:
        spec = ray_object.job.field / "submitterPodTemplate" / "spec"
        for name in ("containers", "initContainers") if spec.given else ():
            yield from (container / "image" for container in (spec / name).items())


def shared_memory_above_limit(cluster: ClusterSpec) -> Iterator[Fault]:
    """A volume at `/dev/shm` that is larger than the memory of Ray's container.

    A volume in memory counts as memory of the container that writes to it. Ray sizes its object
    store by `/dev/shm`, so the container is killed when objects fill the volume.

    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    for group in cluster.every_group:
        first = group.first
        limit = read_quantity(first.limits.get("memory"))
        if limit is None or "volumeMounts" not in first.field.value:
            continue
        for volume in _in_memory(group, first):
            size = volume / "emptyDir" / "sizeLimit"
            amount = read_quantity(size.value)
            if amount is not None and amount > limit:
                limit_text = f"{first.name}'s memory limit {first.limits['memory']}"
                message = f"sizeLimit is {size.value}, above {limit_text}: lower it, or raise that"
                yield Fault(size, message)


def memory_below_mebibyte(cluster: ClusterSpec) -> Iterator[Fault]:
    """An amount of memory or storage below 1 MiB, whose unit is missing or `m`.

    The unit `m` is a thousandth of a byte, and a number without a unit is one of bytes. A container
    with such a limit cannot start, and a request does not reserve what the container uses. Another
    rule reports the memory limit of the head.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#meaning-of-memory
    """
    for group in cluster.every_group:
        for container in group.every_container:
            for kind, listed in (("limits", container.limits), ("requests", container.requests)):
                for name in filter(listed.__contains__, _IN_BYTES):
                    is_same = kind == "requests" and listed[name] == container.limits.get(name)
                    is_of_head = container is cluster.head.first and listed is container.limits
                    if not is_same and not (is_of_head and name == "memory"):
                        yield from _find_tiny(container.amounts(kind).key(name))
        for volume in (group.pod / "volumes").entries():
            yield from _find_tiny(volume / "emptyDir" / "sizeLimit")


def _find_tiny(field: Field) -> Iterator[Fault]:
    """Yield an amount of bytes that is too small for its unit to be meant."""
    amount, literal = read_quantity(field.value), str(field.value)
    if amount is not None and 0 < amount < _MEBIBYTE and _WITHOUT_UNIT.fullmatch(literal):
        count = shorten(f"{amount.normalize():f}")
        unit = "byte" if amount == 1 else "bytes"
        digits = literal.rstrip("m")
        example = digits if digits.isdigit() and len(digits) <= _DIGITS_MAX else "512"
        problem = f"{shorten(literal)!r}, which is {count} {unit}"
        yield Fault(field, f"{problem}: write a unit, such as {example}Mi")


def _in_memory(group: GroupSpec, container: ContainerSpec) -> Iterator[Field]:
    """Yield the in-memory volumes that a container mounts at `/dev/shm`."""
    mounted = {
        (mount / "name").text
        for mount in (container.field / "volumeMounts").items()
        if (mount / "mountPath").text == _SHARED_MEMORY
    }
    for volume in (group.pod / "volumes").items() if mounted else ():
        medium = (volume / "emptyDir" / "medium").text
        if (volume / "name").text in mounted and medium == _MEMORY:
            yield volume


def volume_medium_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """An `emptyDir` with an unknown medium, such as `memory`.

    The API server accepts any text. The kubelet mounts only `Memory`, huge pages and disks, and the
    pod stays in ContainerCreating.

    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    for group in cluster.every_group:
        for volume in (group.pod / "volumes").items() if "volumes" in group.pod.map else ():
            medium = volume / "emptyDir" / "medium"
            kind = medium.text
            if kind not in ("", _MEMORY, "HugePages") and not kind.startswith("HugePages-"):
                message = f"medium is {shorten(kind)!r}: write {_MEMORY}, or remove it"
                yield Fault(medium, message)


def head_memory_too_small(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head with less memory than its processes need to start.

    The head runs the GCS, the dashboard, its agents and the object store. With 200Mi it is killed
    repeatedly before it is ready.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html#resources
    """
    first = cluster.head.first
    limit = read_quantity(first.limits.get("memory"))
    if limit is not None and 0 <= limit < _HEAD_LEAST:
        field = first.amounts("limits").key("memory")
        yield Fault(field, f"the memory limit is {field.value}: write 2Gi or more")


def master_address_local(cluster: ClusterSpec) -> Iterator[Fault]:
    """A rendezvous address that is each host's own, in a group of several hosts.

    Each host connects to its own address, and the job never starts. The webhook sets the address of
    the first host if the template has no address.

    https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization
    """
    for group in cluster.groups:
        for container in group.every_container if group.hosts > 1 else ():
            for name in _ADDRESSES if not container.env.keys().isdisjoint(_ADDRESSES) else ():
                value = container.literal(name)
                if value in _LOCAL:
                    message = f"{name} is {value} on {group.hosts} hosts: remove it"
                    yield Fault(container.value(name), message)


def host_network_dns(cluster: ClusterSpec) -> Iterator[Fault]:
    """A pod whose DNS policy does not resolve the names of the cluster.

    With `hostNetwork` the default policy is that of the node, as is `Default` with any network. The
    Service of the head, the names of the other hosts, and the variables with such names do not
    resolve, so workers stay in Init. `None` has servers of its own, which are not checked.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
    """
    for group in cluster.every_group:
        host, policy = (group.pod / "hostNetwork").flag, group.pod / "dnsPolicy"
        if policy.text == "Default" or (host and policy.text in ("", "ClusterFirst")):
            policy_text = f"{policy.text or 'not set'}{' with hostNetwork' if host else ''}"
            need = "ClusterFirstWithHostNet" if host else "ClusterFirst"
            message = f"dnsPolicy is {policy_text}, which resolves no Services: write {need}"
            yield Fault(policy, message)


def grace_too_short(cluster: ClusterSpec) -> Iterator[Fault]:
    """A drain time that exceeds the grace period of the pod.

    Kubernetes kills the pod `terminationGracePeriodSeconds` after its deletion, even if work is
    running. If the drain time is set by the annotation, the webhook extends the grace period.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    """
    annotation_seconds = read_seconds(DRAIN_SECONDS.read(cluster.annotations)) or 0
    for group in cluster.every_group:
        period = group.pod / "terminationGracePeriodSeconds"
        grace = DEFAULT_GRACE if period.number is None else period.number
        variable_seconds = own_seconds(group.first.literal(names.RAY_DRAIN_TIMEOUT))
        if annotation_seconds and group is not cluster.head:
            drain = annotation_seconds if variable_seconds is None else variable_seconds
            if period.given and drain and grace < drain + MARGIN:
                problem = (
                    f"terminationGracePeriodSeconds is {grace}, but workers drain for {drain} s"
                )
                yield Fault(period, f"{problem}: write {drain + MARGIN}, or remove it")
        elif variable_seconds and variable_seconds >= grace:
            problem = f"pods drain for {variable_seconds} s, but have {grace} s"
            yield Fault(period, f"{problem}: write {variable_seconds + MARGIN}, or drain less")


def ray_stop_in_pre_stop(ray_object: RayObject) -> Iterator[Fault]:
    """A `preStop` hook with `ray stop`, in a worker group that drains, or on nodes that a cloud may
    take back.

    The hook ends all processes of the node immediately, before Ray can drain it. KubeRay had this
    hook once and removed it. Only the first hook of an object is reported.

    https://github.com/ray-project/kuberay/pull/2724
    """
    cluster = ray_object.cluster
    for group in cluster.groups if cluster is not None else ():
        if cluster is None or not (_drains(cluster, group) or _is_preemptible(group)):
            continue
        for container in group.containers:
            command = container.field / "lifecycle" / "preStop" / "exec" / "command"
            if _STOPS.search(" ".join(word.text for word in command.items())):
                yield Fault(command, "ray stop ends what runs on the node at once: remove the hook")
                return


def _drains(cluster: ClusterSpec, group: GroupSpec) -> bool:
    """Return whether the group's pods have time to drain."""
    variable_seconds = own_seconds(group.first.literal(names.RAY_DRAIN_TIMEOUT))
    annotation_seconds = read_seconds(DRAIN_SECONDS.read(cluster.annotations))
    return bool(annotation_seconds if variable_seconds is None else variable_seconds)


def _is_preemptible(group: GroupSpec) -> bool:
    """Return whether the node selector or a label of the group chooses spot nodes."""
    chosen = {**group.selector.strings, **(group.field / "labels").strings}
    return any(
        _SPOT.search(f"{key}={value}") and value.lower() != "false" for key, value in chosen.items()
    )
