"""View of a RayCluster spec, standalone or inside a RayJob or RayService: read once, tolerant of
values of wrong types.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from webhook.accelerators.devices import (
    GPU,
    NO_DEVICES,
    TPU,
    Counts,
    Device,
    Devices,
    count_devices,
    devices_of_host,
    number_of,
)
from webhook.accelerators.slices import Slice, read_slice
from webhook.api import names
from webhook.api.objects import ALWAYS, GROUPS_MAX, ResourceClaim, WorkerGroup, map_of
from webhook.api.release import Release, image_release, parse_release
from webhook.groups.ippr import parse_ippr
from webhook.groups.kueue import NO_KUEUE, Kueue, read_kueue
from webhook.validation.field import Field
from webhook.validation.rule_settings import RuleSettings

UNBOUNDED: Final = 2147483647
"""The CRD's default of `maxReplicas`."""

AUTOSCALER_V2_SINCE: Final = (2, 47)
"""The first Ray release with autoscaler v2 by default."""


class ContainerSpec(Struct):
    """One container of a template; `env` maps the name of a variable to the index of its entry."""

    field: Field
    name: str
    image: str
    env: dict[str, int]
    limits: dict[str, Any]
    requests: dict[str, Any]
    devices: Counts

    def variable(self, name: str) -> Field | None:
        """Return the entry of a variable, or None."""
        index = self.env.get(name)
        if index is None:
            return None
        return Field(self.field.value["env"][index], self.field / "env", index)

    def value(self, name: str) -> Field:
        """Return the field with the value of a variable that exists."""
        return (self.variable(name) or self.field) / "value"

    def sets(self, name: str) -> bool:
        """Return whether the template gives a variable a value or a source."""
        entry = self.variable(name)
        return entry is not None and (bool((entry / "value").text) or (entry / "valueFrom").given)

    def literal(self, name: str) -> str:
        """Return the literal value of a variable in the template, or an empty string."""
        entry = self.variable(name)
        return "" if entry is None else (entry / "value").text

    def amounts(self, kind: str) -> Field:
        """Return the field `resources.limits` or `resources.requests`."""
        return self.field / "resources" / kind


_NO_CONTAINER: Final = ContainerSpec(
    Field(None), "", image="", env={}, limits={}, requests={}, devices=NO_DEVICES
)


class GroupSpec(Struct):
    """A worker group, or the head as a group; absent numbers have the CRD's defaults."""

    field: Field
    name: str
    params: dict[str, str]
    hosts: int
    scale: WorkerGroup
    pod: Field
    containers: list[ContainerSpec]
    inits: list[ContainerSpec]
    devices: Counts
    """The devices of a pod, as counted for the variables of its slice."""
    rendezvous: list[Device]
    """The devices of a pod whose hosts need a rendezvous."""
    slice: Slice
    """The TPU slice of each replica."""

    @property
    def first(self) -> ContainerSpec:
        """Ray's container; one without fields if the template has no container."""
        return self.containers[0] if self.containers else _NO_CONTAINER

    @property
    def every_container(self) -> list[ContainerSpec]:
        """The containers, then the init containers."""
        return [*self.containers, *self.inits]

    def variable(self, name: str) -> Field | None:
        """Return the entry of a variable of Ray's container, or None."""
        return self.first.variable(name)

    def count(self, device: Device) -> int:
        """Return the number of devices of a kind in a pod."""
        return self.devices.get(device.name, 0)

    @property
    def claims(self) -> list[ResourceClaim]:
        """The resource claims of a pod."""
        return [
            ResourceClaim((claim / "name").text, (claim / "resourceClaimTemplateName").text)
            for claim in (self.pod / "resourceClaims").items()
        ]

    @property
    def has_gpus(self) -> bool:
        """Return whether pods have GPUs, by a resource or by claims."""
        return self.count(GPU) > 0 or bool(self.claims)

    @property
    def processes(self) -> int:
        """The number of containers of a pod that run a TPU process of their own, as on v7x."""
        if not self.slice.v7x:
            return 0
        sidecars = [init for init in self.inits if (init.field / "restartPolicy").text == ALWAYS]
        return sum(
            bool(container.devices.get(TPU.name)) for container in (*self.containers, *sidecars)
        )

    @property
    def needs_names(self) -> bool:
        """Return whether other hosts must resolve these hosts by name: several hosts, or
        several slices of one job.
        """
        return self.hosts > 1 or (self.count(TPU) > 0 and self.multi_slice)

    @property
    def multi_slice(self) -> bool:
        """Return whether a container sets the number of slices of a job."""
        return any(container.sets(names.MEGASCALE_NUM_SLICES) for container in self.every_container)

    @property
    def selector(self) -> Field:
        return self.pod / "nodeSelector"

    @property
    def annotations(self) -> Field:
        return self.field / "template" / "metadata" / "annotations"

    @property
    def slice_field(self) -> Field:
        """The field that defines the slice: the annotation, else the node selector."""
        if self.slice.annotated:
            return self.annotations.key(names.ANNOTATION_SLICE_TOPOLOGY)
        return self.selector.key(names.NODE_TPU_TOPOLOGY)

    @property
    def replicas(self) -> int:
        """`replicas` as Kueue counts it, without the bounds of autoscaling."""
        return max(self.scale.replicas or 0, 0)

    def param(self, name: str) -> Field:
        """Return the field of a start parameter."""
        return (self.field / "rayStartParams").key(name)


class ClusterSpec(Struct, dict=True):
    """A RayCluster spec with the annotations and labels of the object that contains it."""

    field: Field
    meta: Field
    name: str
    owner: str
    annotations: dict[str, str]
    labels: dict[str, str]
    head: GroupSpec
    groups: list[GroupSpec]
    kueue: Kueue
    settings: RuleSettings

    @cached_property
    def ippr(self) -> tuple[Any, str]:
        """The value of the annotation of in-place resize, and the problem of its JSON."""
        return parse_ippr(self.annotations.get(names.ANNOTATION_IPPR, ""))

    @property
    def every_group(self) -> list[GroupSpec]:
        """The head, then the worker groups."""
        return [self.head, *self.groups]

    @property
    def autoscaling(self) -> bool:
        """Return whether KubeRay adds Ray's autoscaler."""
        return (self.field / "enableInTreeAutoscaling").flag

    @property
    def has_serve_service(self) -> bool:
        """Return whether the object itself asks for a Service for Ray Serve."""
        return self.annotations.get(names.ENABLE_SERVE_SERVICE) == "true"

    @property
    def serves(self) -> bool:
        """Return whether the cluster is for applications of Ray Serve."""
        return self.has_serve_service or self.owner == names.RAYSERVICE_KIND

    @property
    def autoscaled(self) -> list[GroupSpec]:
        """The head and the worker groups if the cluster autoscales."""
        return self.every_group if self.autoscaling else []

    @property
    def options(self) -> Field:
        return self.field / "autoscalerOptions"

    @property
    def v2_switch(self) -> Field | None:
        """The variable of the head that chooses the autoscaler; it predates the option."""
        return self.head.variable(names.RAY_ENABLE_AUTOSCALER_V2)

    @property
    def v2_on(self) -> bool:
        """Return whether v2 is set explicitly, as KubeRay's own checks require."""
        return self._chosen("v2", ("1", "true"))

    @property
    def v2(self) -> bool | None:
        """Return whether autoscaler v2 runs; None if this depends on an unknown image."""
        if self.v2_on or self._chosen("v1", ("0", "false")):
            return self.v2_on
        release = self.release
        return None if release is None else release >= AUTOSCALER_V2_SINCE

    def _chosen(self, version: str, values: tuple[str, ...]) -> bool:
        switch = self.v2_switch
        return (self.options / "version").text == version or (
            switch is not None and (switch / "value").text in values
        )

    @property
    def release(self) -> Release | None:
        """The Ray release: that of the image, else `rayVersion`."""
        return image_release(self.head.first.image)[0] or parse_release(
            (self.field / "rayVersion").text
        )

    @property
    def gcs_fault_tolerant(self) -> bool:
        """Return whether KubeRay makes the GCS fault tolerant, by options or by the annotation."""
        return (self.field / "gcsFaultToleranceOptions").given or self.enables(
            names.ANNOTATION_FT_ENABLED
        )

    def enables(self, name: str) -> bool:
        """Return whether an annotation is `true`, in any case, as KubeRay compares it."""
        return self.annotations.get(name, "").lower() == "true"

    def overwrites_start(self, group: GroupSpec) -> bool:
        """Return whether the words of a group's container replace KubeRay's `ray start`."""
        annotation = group.annotations.key(names.OVERWRITE_COMMAND).text
        return annotation.lower() == "true" or self.enables(names.OVERWRITE_COMMAND)

    def groups_with(self, device: Device) -> Iterator[GroupSpec]:
        """Yield the worker groups whose pods request a device."""
        return (group for group in self.groups if group.count(device))

    def annotation(self, name: str) -> Field:
        return (self.meta / "annotations").key(name)


def read_cluster(field: Field, meta: Field, settings: RuleSettings, owner: str = "") -> ClusterSpec:
    """Return the view of the RayCluster spec at `field`, part of an object with the metadata `meta`
    and owned by `owner`.
    """
    labels = (meta / "labels").strings
    listed = field / "workerGroupSpecs"
    entries = [entry for entry in islice(listed.items(), GROUPS_MAX) if type(entry.value) is dict]
    name = (meta / "name").text or (meta / "generateName").text + "xxxxx"
    annotations = (meta / "annotations").strings
    kueue = read_kueue(labels)
    devices = settings.devices
    groups = [_group(entry, (entry / "groupName").text, kueue, devices) for entry in entries]
    return ClusterSpec(
        field=field,
        meta=meta,
        # KubeRay names the RayCluster of a RayJob or RayService after it, with five random
        # characters.
        name=f"{name}-xxxxx" if owner else name,
        owner=owner or labels.get(names.LABEL_ORIGIN_KIND, ""),
        annotations=annotations,
        labels=labels,
        head=_group(field / "headGroupSpec", names.HEAD_GROUP, NO_KUEUE, devices),
        groups=groups,
        kueue=kueue,
        settings=settings,
    )


def _group(field: Field, name: str, kueue: Kueue, devices: Devices) -> GroupSpec:
    """Return the view of the group at `field`. Large objects have hundreds of groups, so only
    fields that findings refer to become `Field` objects.
    """
    value = map_of(field.value)
    template_field = field / "template"
    template = map_of(template_field.value)
    pod_field = template_field / "spec"
    pod = map_of(pod_field.value)
    hosts, maximum = _number(value.get("numOfHosts")), _number(value.get("maxReplicas"))
    hosts = 1 if hosts is None else hosts
    scale = WorkerGroup(
        group_name=name,
        num_of_hosts=hosts,
        replicas=_number(value.get("replicas")),
        min_replicas=_number(value.get("minReplicas")),
        max_replicas=UNBOUNDED if maximum is None else maximum,
        suspend=value.get("suspend") is True,
    )
    containers = _containers(pod, pod_field, "containers", devices)
    inits = _containers(pod, pod_field, "initContainers", devices)
    counts = devices_of_host(
        [container.devices for container in containers],
        [(init.devices, init.field.value.get("restartPolicy") == ALWAYS) for init in inits],
    )
    annotations = _strings(map_of(template.get("metadata")).get("annotations"))
    selector = _strings(pod.get("nodeSelector"))
    placed = kueue.places(annotations, _names(pod.get("schedulingGates")))
    chips = counts.get(TPU.name, 0) * hosts
    whole = read_slice(annotations, selector, chips, placed=placed)
    params = _strings(value.get("rayStartParams"))
    return GroupSpec(
        field,
        name,
        params=params,
        hosts=hosts,
        scale=scale,
        pod=pod_field,
        containers=containers,
        inits=inits,
        devices=counts,
        rendezvous=[device for device in devices if device.rendezvous and device.name in counts],
        slice=whole,
    )


def _containers(
    pod: Mapping[str, Any], pod_field: Field, name: str, devices: Devices
) -> list[ContainerSpec]:
    listed = pod.get(name)
    if type(listed) is not list:
        return []
    holder = Field(listed, pod_field, name)
    return [
        _container(entry, Field(entry, holder, index), devices)
        for index, entry in enumerate(listed)
        if type(entry) is dict
    ]


def _container(value: Mapping[str, Any], field: Field, devices: Devices) -> ContainerSpec:
    entries = value.get("env")
    env = {}
    if type(entries) is list:
        env = {
            entry["name"]: index
            for index, entry in enumerate(entries)
            if type(entry) is dict and type(entry.get("name")) is str
        }
    resources = map_of(value.get("resources"))
    limits, requests = map_of(resources.get("limits")), map_of(resources.get("requests"))
    claims = _names(resources.get("claims"))
    counts = (
        count_devices(devices, limits, requests, lambda _, amount: number_of(amount), claims=claims)
        if limits or requests or claims
        else NO_DEVICES
    )
    name, image = _text(value.get("name")), _text(value.get("image"))
    return ContainerSpec(
        field, name, image=image, env=env, limits=limits, requests=requests, devices=counts
    )


def _names(listed: object) -> list[str]:
    """Return the names of the entries of a list."""
    return [_text(map_of(entry).get("name")) for entry in listed] if type(listed) is list else []


def _text(value: object) -> str:
    return value if type(value) is str else ""


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _strings(value: object) -> dict[str, str]:
    entries = map_of(value)
    return (
        {key: entry for key, entry in entries.items() if type(entry) is str} if entries else entries
    )
