"""Rules of TPUs and GPUs of worker groups: topology and hosts, node selectors, amounts, and
identities set by hand.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.accelerators.devices import GPU, IDENTITIES, NEURON, NEURON_CORE, TPU, device_of
from webhook.accelerators.profiles import NONE, choose
from webhook.accelerators.slices import (
    GENERATIONS,
    LISTED,
    Generation,
    TopologyError,
    advice,
    chips_of,
    generation_of,
    hosts_of,
    list_topologies,
    nearest_accelerator,
    parse_topology,
)
from webhook.api import names
from webhook.api.formats import nearest, shorten
from webhook.api.review import REQUIRED
from webhook.groups.annotations import PROFILES, TOPOLOGY_KEY
from webhook.groups.naming import (
    ADDED_MAX,
    address_size,
    compute_added_size,
    count_addresses,
    too_large,
)
from webhook.validation.capacity import read_capacity
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import COMPARED_MAX, Field
from webhook.validation.finding import Fault

_NEURON_CORES: Final = "neuron_cores"
"""Ray's resource name for NeuronCores."""
_ROCR: Final = "ROCR_VISIBLE_DEVICES"
_HIP: Final = "HIP_VISIBLE_DEVICES"
_CUDA: Final = "CUDA_VISIBLE_DEVICES"

_GKE_GPUS: Final = (
    "nvidia-tesla-a100", "nvidia-tesla-p100", "nvidia-tesla-p4", "nvidia-tesla-t4",
    "nvidia-tesla-v100", "nvidia-l4", "nvidia-a100-80gb", "nvidia-h100-80gb",
    "nvidia-h100-mega-80gb", "nvidia-h200-141gb", "nvidia-b200", "nvidia-gb200",
    "nvidia-rtx-pro-6000",
)  # fmt: skip
"""GKE's values of the node label of GPUs; others are not judged unless they are nearly one."""
_SIZES: Final = {"nvidia-tesla-a100": "a100-40gb"}
"""The models of GPUs whose names lack the size of their memory."""
_BRANDS: Final = ("nvidia-", "tesla-")
_RESOURCES: Final = (
    names.RESOURCE_TPU, "nvidia.com/gpu", names.RESOURCE_AMD_GPU, names.RESOURCE_NEURON_CORE,
    *names.RESOURCES_NEURON, "habana.ai/gaudi", "vpc.amazonaws.com/efa",
)  # fmt: skip
"""Resources of device plugins; other resources are not judged unless they are nearly one."""
_SEPARATORS: Final = re.compile("[-_]")
_VENDOR_LIKENESS: Final = 0.8
"""How much a misspelt vendor has in common with the right one, such as nvdia with nvidia."""
_COUNTS: Final = (names.NNODES, names.PET_NNODES)
"""Variables with the number of hosts of a job; a range such as `1:4` contains it."""
_BY_HAND: Final = frozenset((*IDENTITIES, *_COUNTS))
_POOLS: Final = (names.NODE_POOL, names.COMPUTE_CLASS)
"""Node labels that select nodes of a single machine type, and so of a single TPU generation."""


def tpu_topology_mismatch(cluster: ClusterSpec) -> Iterator[Fault]:
    """A TPU topology whose number of chips does not match `numOfHosts`.

    A slice starts only when all of its hosts are running. With another number of pods, the slice
    never becomes ready, or pods find no node.

    https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    """
    for group in cluster.groups_with(TPU):
        topology, chips = group.slice.topology[:32], group.count(TPU)
        if not topology or group.slice.unchecked:
            continue
        try:
            hosts = hosts_of(topology, chips)
        except TopologyError as error:
            yield Fault(group.slice_field, str(error))
        else:
            if hosts != group.hosts and group.hosts > 0:  # else another rule reports it
                other = advice(group.slice.generation, chips * group.hosts, "change the topology")
                slice_hosts = f"{topology} with {chips} chips per host has {hosts}"
                message = (
                    f"numOfHosts is {group.hosts}, but {slice_hosts}: set it to {hosts}, or {other}"
                )
                yield Fault(group.field / "numOfHosts", message)


def tpu_subslice_larger(cluster: ClusterSpec) -> Iterator[Fault]:
    """A sub-slice that does not fit into the slice that its pods select.

    The annotation names a part of the slice in the node selector: it must have the same number of
    dimensions, none of them larger.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/tpu.html
    """
    for group in cluster.groups_with(TPU):
        part = group.slice
        if part.unchecked or not part.parent:
            continue
        try:
            too_large = part.too_large
        except TopologyError as error:
            if part.readable:  # otherwise another rule reports the annotation
                yield Fault(group.selector.key(names.NODE_TPU_TOPOLOGY), str(error))
            continue
        if too_large:
            part_text, slice_text = shorten(part.topology), shorten(part.parent)
            problem = f"sub-slice {part_text} does not fit into the selected slice {slice_text}"
            message = f"{problem}: lower it, or select a larger one"
            yield Fault(group.slice_field, message)


def tpu_subslice_apart(cluster: ClusterSpec) -> Iterator[Fault]:
    """A sub-slice of several hosts without a constraint that keeps its hosts together.

    Sub-slices share a node pool, so the hosts of one replica may be placed in two of them, and the
    slice does not start. GKE labels nodes by their distance; the label for which each value has as
    many nodes as the group has hosts keeps the hosts together.

    https://cloud.google.com/compute/docs/instances/view-vm-topology
    """
    topology_key = TOPOLOGY_KEY.read(cluster.annotations)
    for group in cluster.groups_with(TPU):
        part = group.slice
        if group.hosts > 1 and part.parent and not topology_key and not part.placed:
            keys = "a label such as gce-topology-block"
            message = f"hosts may be spread: set {TOPOLOGY_KEY.annotation} to {keys}"
            yield Fault(group.slice_field, message)


def tpu_node_selector_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """A TPU group that does not select both the accelerator and the topology.

    The scheduler may then mix slices, and Ray's autoscaler does not recognise the group's slices. A
    required node affinity on the label is accepted too. With Kueue's topology-aware scheduling, the
    slice may be formed after nodes are chosen, so only the accelerator is needed. A missing
    accelerator is a warning. A missing topology is a warning if the group has a single host and
    selects a node pool or a compute class, or if the cluster is in a queue of Kueue, which writes
    the labels of its ResourceFlavor into templates on admission.

    https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    for group in cluster.groups_with(TPU):
        if group.slice.unchecked:
            continue
        selector, affinity = group.selector, _affinity_keys(group)
        for label in TPU.selectors:
            if selector.map.get(label) not in (None, "") or label in affinity:
                continue
            if label == names.NODE_TPU_TOPOLOGY and _is_sliced_by_kueue(cluster, group):
                continue
            pooled = any(selector.key(key).given or key in affinity for key in _POOLS)
            mild = label == names.NODE_TPU_ACCELERATOR or (pooled and group.hosts == 1)
            message = f"nodeSelector lacks {label.rpartition('/')[2]}: {_selections(group, label)}"
            # Kueue's annotations show that RayClusters without a queue label are queued too
            topologies = group.annotations.strings.keys() & set(names.KUEUE_TOPOLOGIES)
            doubtful = mild or cluster.kueue.queued or bool(topologies)
            yield Fault(selector.key(label), message, REQUIRED, doubtful=doubtful)


def _selections(group: GroupSpec, label: str) -> str:
    """Return the values of a node label that fit the chips and hosts of a group."""
    chips = group.count(TPU)
    group_generation = group.slice.generation
    if label == names.NODE_TPU_TOPOLOGY and group_generation is not None:
        values = list_topologies(group_generation, chips * group.hosts)
    elif label == names.NODE_TPU_TOPOLOGY:
        fitting = (
            list_topologies(generation, chips * group.hosts) for generation in GENERATIONS.values()
        )
        values = tuple(dict.fromkeys(value for topologies in fitting for value in topologies))
    else:
        topology = group.slice.topology
        count = chips_of(topology) or chips * group.hosts
        values = tuple(
            name
            for name, generation in GENERATIONS.items()
            if _lists(generation, topology, count)
            and not (group.hosts > 1 and name.endswith("-device"))
        )
    shape = f"{group.hosts} x {chips} chips"
    return f"add {' or '.join(values[:2])}" if values else f"no value is known for {shape}"


def _lists(generation: Generation, topology: str, chips: int) -> bool:
    """Return whether a generation has a topology, by default any with this number of chips."""
    fitting = list_topologies(generation, chips)
    return topology in fitting if topology else bool(fitting)


def _is_sliced_by_kueue(cluster: ClusterSpec, group: GroupSpec) -> bool:
    """Return whether the slice is formed from nodes that Kueue chooses, so that no node has its
    topology yet.
    """
    return group.slice.placed or (group.slice.annotated and cluster.kueue.queued)


def _affinity_keys(group: GroupSpec) -> set[str]:
    """Return the keys in the required node affinity of a group's pods."""
    return {(expression / "key").text for expression in _affinity_expressions(group)}


def _affinity_expressions(group: GroupSpec) -> Iterator[Field]:
    """Yield the expressions of the required node affinity of a group's pods."""
    if "affinity" in group.pod.map:
        affinity = group.pod / "affinity" / "nodeAffinity"
        required = affinity / "requiredDuringSchedulingIgnoredDuringExecution"
        for term in (required / "nodeSelectorTerms").items():
            yield from (term / "matchExpressions").items()


def tpu_topology_unlisted(cluster: ClusterSpec) -> Iterator[Fault]:
    """A TPU topology that is not in Ray's list of its generation.

    With the right number of dimensions, only `slice_placement_group` of Ray refuses to reserve such
    a slice; its pods start, and form the slice. A node pool has one topology, so another one is no
    remedy. No node pool has a topology of two dimensions of a generation with three, or the
    reverse.

    https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
    """
    for group in cluster.groups_with(TPU):
        topology, generation = group.slice.topology[:32], group.slice.generation
        if generation is None or not topology or group.slice.unchecked:
            continue
        try:
            sizes = parse_topology(topology)
        # Another rule reports a topology that cannot be read.
        except TopologyError:
            continue
        listed_topologies = LISTED[generation.name]
        dimensions = len(next(iter(listed_topologies)))
        if len(sizes) != dimensions:
            chips = group.count(TPU) * group.hosts
            other = advice(generation, chips, f"write {dimensions} numbers")
            problem = f"TPU {generation.name} has {dimensions} dimensions"
            yield Fault(group.slice_field, f"{problem}, so no node has {topology}: {other}")
        elif sizes not in listed_topologies:
            refused = f"slice_placement_group of Ray refuses {topology} of TPU {generation.name}"
            message = f"{refused}, and nothing else does"
            yield Fault(group.slice_field, message)


def accelerator_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """An accelerator in a node selector or a required node affinity that GKE does not have, or a
    resource that no device plugin has, and that is nearly the name of one.

    No node has the label or the resource, so the pods stay Pending unless the affinity lists other
    values. Examples are `tpu-v4` and `tpu_v4_podslice` for `tpu-v4-podslice`, `nvidia-h100` for
    `nvidia-h100-80gb`, and `aws.amazon.com/neuroncores` for `aws.amazon.com/neuroncore`. A list
    that also contains the right name is not reported.

    https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    """
    for group in cluster.every_group:
        selected_accelerators = list(_list_selected_accelerators(group))
        selected_names = {field.text for _, field in selected_accelerators}
        for label, field in selected_accelerators:
            value = field.text
            nearest = _nearest_tpus if label == names.NODE_TPU_ACCELERATOR else _nearest_gpus
            near = nearest(value)
            if near and selected_names.isdisjoint(near):
                meant = " or ".join(near[:2])
                yield Fault(
                    field, f"there is no accelerator {shorten(value)}: did you mean {meant}?"
                )
        for container in group.every_container:
            for name in islice({**container.requests, **container.limits}, COMPARED_MAX):
                if "/" in name and (resource := _nearest_resource(name)):
                    kind = "limits" if name in container.limits else "requests"
                    message = f"there is no resource {shorten(name)}: did you mean {resource}?"
                    yield Fault(container.amounts(kind).key(name), message)


def _list_selected_accelerators(group: GroupSpec) -> Iterator[tuple[str, Field]]:
    """Yield the accelerators that pods of a group select, each with its node label."""
    for label in (names.NODE_TPU_ACCELERATOR, names.NODE_GPU_ACCELERATOR):
        if label in group.selector.map:
            yield label, group.selector.key(label)
        for expression in _affinity_expressions(group):
            if (expression / "key").text == label and (expression / "operator").text == "In":
                yield from ((label, value) for value in (expression / "values").items())


def _nearest_resource(name: str) -> str:
    """Return the resource of a device plugin that a misspelt one may stand for, or an empty text:
    its plural, another case or separator, or one of nearly the same domain.
    """
    if name in _RESOURCES:
        return ""
    domain, _, device = name.rpartition("/")
    device = _SEPARATORS.sub("", device.lower()).removesuffix("s")
    for resource in _RESOURCES:
        vendor_domain, _, plain = resource.partition("/")
        if device == plain:
            vendor = vendor_domain.split(".")[-2]
            if any(
                nearest(part, (vendor,), _VENDOR_LIKENESS) for part in domain.rsplit(".", 3)[-3:]
            ):
                return resource
    return ""


def _nearest_tpus(value: str) -> list[str]:
    near = nearest_accelerator(value) if value and generation_of(value) is None else ""
    return [near] if near else []


def _nearest_gpus(value: str) -> list[str]:
    """Return the accelerators that an invalid name may stand for, such as nvidia-tesla-a100 and
    nvidia-a100-80gb for nvidia-a100.
    """
    if not value or value in _GKE_GPUS:
        return []
    model = _model(value.lower().replace("_", "-"))
    return [gpu for gpu in _GKE_GPUS if f"{_SIZES.get(gpu, _model(gpu))}-".startswith(f"{model}-")]


def _model(name: str) -> str:
    """Return the name of a GPU without its brands."""
    for brand in _BRANDS:
        name = name.removeprefix(brand)
    return name


def variables_too_large(cluster: ClusterSpec) -> Iterator[Fault]:
    """Variables that make pods too large: the variables of a TPU slice list all of its hosts, in
    every container.

    The webhook refuses pods to which it would add more than 1 MB, counting 2 kB for the variables
    of a container that list no hosts: etcd stores no object above 1.5 MiB.

    https://etcd.io/docs/latest/dev-guide/limit/
    """
    chosen = PROFILES.read(cluster.annotations)
    profiles = choose(chosen, cluster.settings.profiles, of_slice=True)
    for group in cluster.every_group:
        chips = 0 if group is cluster.head else group.count(TPU)
        hosts, endpoints = count_addresses(
            group.slice, group.hosts, chips=chips, processes=group.processes, profiles=profiles
        )
        # KubeRay adds an init container to workers that blocks until the head is ready
        containers = len(group.containers) + len(group.inits) + (group is not cluster.head)
        subdomain = (group.pod / "subdomain").text
        address = address_size(group.name, cluster.name, hosts, subdomain)
        size = compute_added_size(address, hosts, containers, endpoints)
        if size > ADDED_MAX:
            field = group.field / "numOfHosts" if hosts > 1 else group.pod / "containers"
            yield Fault(field, too_large(size, hosts, containers, endpoints))


def device_outside_first_container(cluster: ClusterSpec) -> Iterator[Fault]:
    """TPUs or GPUs of a container other than Ray's.

    Ray runs in the first container and offers only the devices of that container. Hosts of TPU v7x
    may have several such containers.

    https://github.com/ray-project/kuberay/issues/1379
    """
    devices = cluster.settings.devices
    for group in cluster.every_group:
        first = group.first
        if first.devices.get(TPU.name) and group.slice.v7x:
            continue
        for container in group.containers[1:]:
            listed = container.devices and (
                ("limits", container.limits),
                ("requests", container.requests),
            )
            fields = (
                container.amounts(kind).key(key)
                for kind, amounts in listed or ()
                for key, amount in amounts.items()
                if device_of(key, devices) is not None and type(amount) in (str, int, float)
            )
            if field := next(fields, None):
                where = f"move it to {first.name}, the first container"
                yield Fault(field, f"{field.token} is not in Ray's container: {where}")


def neuron_cores_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """An autoscaled group that requests Neuron devices and offers Ray no NeuronCores.

    KubeRay and the autoscaler derive `neuron_cores` from `aws.amazon.com/neuroncore` only, so the
    group is never scaled up for tasks and actors that request NeuronCores. Ray counts the cores of
    a node that runs.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`addWellKnownAcceleratorResources`)
    """
    for group in cluster.groups_with(NEURON):
        first, resources = group.first, group.field / "resources"
        if (
            cluster.autoscaling
            and group.scale.min_replicas != group.scale.max_replicas
            and first.devices.get(NEURON.name)
            and not first.devices.get(NEURON_CORE.name)
            and _NEURON_CORES not in resources.map
            and _NEURON_CORES not in group.params.get("resources", "")
        ):
            why = f"KubeRay counts only {names.RESOURCE_NEURON_CORE}"
            message = f"add {_NEURON_CORES} with the cores of a host: {why}"
            yield Fault(resources.key(_NEURON_CORES), message, REQUIRED)


def amd_visible_devices(cluster: ClusterSpec) -> Iterator[Fault]:
    """Variables of visible devices that Ray rejects on AMD GPUs.

    Ray raises an error if `ROCR_VISIBLE_DEVICES` is set, or if `CUDA_VISIBLE_DEVICES` differs from
    `HIP_VISIBLE_DEVICES`, so the node does not start.

    https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/amd_gpu.py
    """
    for group in cluster.every_group:
        first = group.first
        if not {**first.requests, **first.limits}.get(names.RESOURCE_AMD_GPU):
            continue
        if first.sets(_ROCR) and (entry := first.variable(_ROCR)):
            yield Fault(entry / "name", f"remove {_ROCR}: Ray refuses it, and sets {_HIP} itself")
        cuda = first.literal(_CUDA)
        if cuda and first.literal(_HIP) != cuda:
            message = f"remove {_CUDA}: Ray refuses it where {_HIP} is not the same"
            yield Fault(first.value(_CUDA), message)


def identity_by_hand(cluster: ClusterSpec) -> Iterator[Fault]:
    """The identity of a single host, or another number of hosts, written into the template of a
    multi-host group.

    All hosts of all replicas then have the same identity, and the slice does not start. With a
    `hostname`, hosts cannot resolve each other. With an `NNODES` other than `numOfHosts`, the hosts
    of a replica wait for others. A `valueFrom` that reads the pod's own labels is allowed, and so
    is a `$(NAME)`, whose value only the pod has.

    https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
    """
    for group in cluster.every_group:
        hosts = group.hosts
        field = group.pod / "hostname"
        if group is not cluster.head and field.text and group.needs_names:
            yield Fault(field, f"hostname is {shorten(field.text)} on {hosts} hosts: remove it")
        for container in group.every_container if hosts > 1 else ():
            if container.env.keys().isdisjoint(_BY_HAND):
                continue
            counts = _COUNTS if _meets(cluster, group) else ()
            for name in (*IDENTITIES, *counts):
                value = container.literal(name)
                right = _counts(value, hosts) if name in _COUNTS else value == IDENTITIES[name]
                if value and not right and "$(" not in value:
                    message = f"{name} is {shorten(value)} on {hosts} hosts: remove it"
                    yield Fault(container.value(name), message)


def _counts(value: str, hosts: int) -> bool:
    """Return whether a number of hosts, or a range of torchrun such as `1:4`, contains `hosts`."""
    least, _, most = value[:32].partition(":")
    try:
        return int(least) <= hosts <= int(most or least)
    except ValueError:
        return False


def head_not_counted(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head with the devices of a worker group whose hosts meet by `NNODES`.

    The variables of the rendezvous count the hosts of a replica of a worker group. A job that also
    runs on the head waits for a host too many, or leaves the head's devices idle. Applications of
    Serve place their replicas themselves, and no job runs on a head that offers Ray no GPUs.

    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    head, profiles = cluster.head, PROFILES.read(cluster.annotations)
    if not head.rendezvous or cluster.serves or _offers_no_gpu(cluster, head):
        return
    listed = profiles and NONE not in profiles
    for group in cluster.groups:
        runs_jobs = not _offers_no_gpu(cluster, group)
        for device in group.rendezvous if runs_jobs and (listed or _meets(cluster, group)) else ():
            if head.count(device) == group.count(device):
                problem = (
                    f'NNODES counts hosts of worker group "{shorten(group.name)}", not the head'
                )
                key = next(filter(device.named_by, head.first.limits), "")
                field = head.first.amounts("limits").key(key) if key else head.pod / "containers"
                yield Fault(field, f"{problem}: run the job on workers only")
                return


def _offers_no_gpu(cluster: ClusterSpec, group: GroupSpec) -> bool:
    """Return whether Ray starts without GPUs on a group whose pods have some."""
    if not group.params.get("num-gpus") and not (group.field / "resources").size:
        return False  # KubeRay takes the number from the container
    capacity = read_capacity(cluster, group)
    return group.has_gpus and capacity is not None and capacity.amount(GPU.name) == 0


def _meets(cluster: ClusterSpec, group: GroupSpec) -> bool:
    """Return whether the hosts of a replica get the variables of the rendezvous."""
    off = NONE in PROFILES.read(cluster.annotations)
    return group.hosts > 1 and not off and bool(group.rendezvous)
