"""Generated worker pods and their RayClusters: valid and invalid user input."""

from typing import NamedTuple

from hypothesis import strategies as st

from tests.builders import NAMESPACE, Object, uid_of
from webhook.accelerators import profiles
from webhook.api import names

CLUSTER = "c"
GROUPS = st.sampled_from(
    ["g", "g", "g", "tpu-group", "TPU-Group", "g" * 57, "g" * 58, "g" * 62, "a.b", "a_b", "0"]
)

# What people put into `env`: our names with and without a value, placeholders, and their own, which
# may refer to ours.
OURS = [
    names.TPU_WORKER_ID, names.TPU_WORKER_HOSTNAMES, names.TPU_NAME, names.TPU_TOPOLOGY,
    names.TPU_DEVICE_PLUGIN_HOST_IP,
    names.TPU_DEVICE_PLUGIN_ADDR, names.TPU_PROCESS_PORT, names.MEGASCALE_NUM_SLICES,
    names.MEGASCALE_SLICE_ID, *(setting.variable for setting in profiles.RENDEZVOUS.settings),
    names.PET_NNODES, names.PET_MASTER_ADDR,
    names.VLLM_HOST_IP, names.RAY_SHARD_INDEX,
    names.RAY_SHARD_GROUP, names.RAY_SHARD_COUNT, names.RAY_DRAIN_TIMEOUT, names.RAY_NODE_ZONE,
    names.RAY_OVERRIDE_LABELS,
]  # fmt: skip
THEIRS = ["A", "B", "JOB", "FQ_RAY_IP", "RANK"]
START = {"name": names.RAY_START_COMMAND, "value": "ray start"}
VALUES = st.sampled_from([
    "", "0", "1", "2", "localhost", "mine", "g-0-0", "x-$(TPU_WORKER_ID)-$(NODE_RANK)",
    "$(TPU_DEVICE_PLUGIN_ADDR)",
])  # fmt: skip


def _entry(name: str, value: str | None, *, elsewhere: bool) -> Object:
    if elsewhere:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    return {"name": name} if value is None else {"name": name, "value": value}


ENTRIES = st.builds(
    _entry, st.sampled_from(OURS + THEIRS), st.none() | VALUES,
    elsewhere=st.sampled_from([False, False, False, True]))  # fmt: skip
ENVS = st.none() | st.lists(ENTRIES, max_size=6)
DEVICES = st.sampled_from([
    "google.com/tpu", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/gpu", "cpu", "memory",
])  # fmt: skip
AMOUNTS = st.sampled_from(
    [{"google.com/tpu": "4"}, {"google.com/tpu": 2}, {"nvidia.com/gpu": "8"}]
) | st.dictionaries(DEVICES, st.sampled_from(["0", "1", "2", "4", "8", 4]), max_size=3)
RESOURCES = st.none() | st.fixed_dictionaries(
    {},
    optional={"limits": AMOUNTS, "requests": AMOUNTS, "claims": st.builds(lambda: [{"name": "x"}])},
)
TERM = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
TERMS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.none() | st.lists(
            st.just(TERM), max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.just([{
            "weight": 1, "podAffinityTerm": TERM}])})  # fmt: skip
AFFINITIES = st.none() | st.fixed_dictionaries(
    {}, optional={"podAffinity": TERMS, "podAntiAffinity": TERMS, "nodeAffinity": st.just({"x": 1})}
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        names.NODE_TPU_ACCELERATOR: st.sampled_from([
            "tpu-v4-podslice", "tpu-v6e-slice", "tpu7x", "tpu7x-standard-4t", "unheard-of"]),
        names.NODE_TPU_TOPOLOGY: st.sampled_from([
            "2x2", "2x4", "2x2x2", "4x4", "2x2x4", "4x4", "2x"])})  # fmt: skip


RULES = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]
RESIZE_RULES = st.none() | st.lists(st.sampled_from(RULES), max_size=2, unique_by=str)
IPPR = '{"groups": {"%s": {"max-cpu": "8", "max-memory": "32Gi", "resize-timeout": 60}}}'


REQUESTS = st.fixed_dictionaries(
    {}, optional={
        "cpu": st.sampled_from(["100m", "0.5", 8]),
        "memory": st.sampled_from(["128Mi", "900M", "64Gi"]),
    },
)  # fmt: skip
_FEW = {"cpu": "200m", "memory": "256Mi"}
WAITS = st.sampled_from([
    {"name": names.WAIT_FOR_HEAD, "image": "ray", "resources": resources}
    for resources in (
        {"limits": {**_FEW}, "requests": {**_FEW}}, {"requests": _FEW}, {"limits": _FEW}, {},
        {"requests": _FEW, "limits": {"cpu": "0.5", "memory": "900M"}},
    )
])  # fmt: skip


class Case(NamedTuple):
    """A worker or head pod that is created, and its RayCluster."""

    pod: Object
    cluster: Object


@st.composite
def _containers(draw: st.DrawFn, kind: str, least: int) -> list[Object]:
    found = []
    for number in range(draw(st.integers(least, 3))):
        container: Object = {
            "name": f"{kind}-{number}",
            "image": draw(st.sampled_from(["busybox", "rayproject/ray:2.57.0"])),
            "ports": [{"containerPort": 1}],
        }
        if draw(st.booleans()):
            container["env"] = draw(ENVS)
        if draw(st.integers(0, 3)):
            container["resources"] = draw(RESOURCES)
        if not draw(st.integers(0, 3)):
            container["resizePolicy"] = draw(RESIZE_RULES)
        if not draw(st.integers(0, 3)):
            container["lifecycle"] = draw(st.sampled_from([
                None, {}, {"stopSignal": "SIGUSR1"},
                {"postStart": {"exec": {"command": ["true"]}}}]))  # fmt: skip
        if kind == "init" and draw(st.booleans()):
            container["restartPolicy"] = "Always"
        found.append(container)
    return found


@st.composite
def _waits(draw: st.DrawFn, spec: Object, *, head: bool) -> Object:
    if head or draw(st.booleans()):
        return {}
    for container in spec["containers"]:
        resources = container["resources"] = container.get("resources") or {}
        resources["requests"] = {**(resources.get("requests") or {}), **draw(REQUESTS)}
    return {"initContainers": [*spec.get("initContainers", []), draw(WAITS)]}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a strategy of heads and workers, most of which can be admitted."""
    group, hosts = draw(GROUPS), draw(st.sampled_from([1, 2, 4]))
    head = not draw(st.integers(0, 7))
    spec: Object = {
        "containers": draw(_containers("main", 1)),
        "restartPolicy": "Never",
        "schedulingGates": [],
    }
    if draw(st.booleans()):  # KubeRay's variable, wherever webhooks have put sidecars
        ray = draw(st.sampled_from(spec["containers"]))
        ray["env"] = [*(ray.get("env") or []), START]
    if draw(st.booleans()):
        spec["initContainers"] = draw(_containers("init", 0))
    spec |= draw(_waits(spec, head=head))
    for key, strategy in {"affinity": AFFINITIES, "nodeSelector": SELECTORS}.items():
        if draw(st.booleans()):
            spec[key] = draw(strategy)
    if draw(st.booleans()):
        spec["hostname"] = draw(st.sampled_from(["", "mine", "g-0-0", None]))
        spec["subdomain"] = draw(st.sampled_from(["", "mine", "c-headless", None]))
    if not draw(st.integers(0, 3)):
        spec["schedulingGroup"] = draw(st.none() | st.just({"podGroupName": "mine"}))
    if draw(st.booleans()):
        spec["terminationGracePeriodSeconds"] = draw(st.sampled_from([0, 30, 300]))
    if not draw(st.integers(0, 7)):
        spec["schedulerName"] = draw(st.sampled_from(["default-scheduler", "volcano"]))
    labels = {
        names.LABEL_CLUSTER: CLUSTER,
        names.LABEL_GROUP: names.HEAD_GROUP if head else group,
        names.LABEL_NODE_TYPE: names.NODE_TYPE_HEAD if head else names.NODE_TYPE_WORKER,
        "a/b~c": "1",
        **draw(st.sampled_from([{}, {}, {names.LABEL_LEGACY_REPLICA_INDEX: "mine-7"}])),
        **({} if head else draw(_identity_labels(group, hosts))),
    }
    owner = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": CLUSTER, "uid": uid_of(CLUSTER),
        "controller": True}  # fmt: skip
    meta = {
        "generateName": "c-g-worker-", "namespace": NAMESPACE, "labels": labels,
        "ownerReferences": [owner]}  # fmt: skip
    annotations = draw(st.fixed_dictionaries(
        {},
        optional={
            names.ANNOTATION_PROFILES: st.sampled_from([
                "torchrun", "vllm,mnnvl", "unheard-of", "none"]),
            names.ANNOTATION_TOPOLOGY_KEY: st.sampled_from(["nvidia.com/gpu.clique", "-bad-"]),
            names.ANNOTATION_SCHEDULING_GROUP: st.sampled_from([
                "cluster", "worker-group", "replica", "unheard-of"]),
            names.ANNOTATION_IPPR: st.sampled_from([IPPR % group, IPPR % names.HEAD_GROUP, "{"]),
            names.ANNOTATION_SHARD_GROUP: st.just("tables"),
            names.ANNOTATION_SHARD_INDEX: st.just("3"), names.ANNOTATION_SHARD_COUNT: st.just("8"),
            names.ANNOTATION_REPLICA_LABEL: st.just("true"),
            names.ANNOTATION_REPAIR: st.just("true"),
            names.ANNOTATION_DRAIN_SECONDS: st.sampled_from(["120", "0", "2m"]),
            names.ANNOTATION_KEEP_NODES: st.sampled_from(["heads", "all", "some"]),
            names.ANNOTATION_COMPUTE_DOMAIN: st.sampled_from([
                "cluster", "worker-group", "replica"]),
            names.ANNOTATION_NODE_LABELS: st.sampled_from([
                "example.com/rack", "-bad-"])}))  # fmt: skip
    groups = draw(_groups(group, hosts, spec["containers"]))
    cluster = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {
            "name": CLUSTER, "namespace": NAMESPACE, "uid": uid_of(CLUSTER),
            "annotations": annotations},
        "spec": {"workerGroupSpecs": groups}}  # fmt: skip
    return Case({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, cluster)


@st.composite
def _groups(draw: st.DrawFn, group: str, hosts: int, containers: list[Object]) -> list[Object]:
    """Return a group and maybe another, in one job over TPU slices where a variable says so."""
    groups = [{"groupName": group, "numOfHosts": hosts, "replicas": draw(st.integers(1, 3))}]
    if draw(st.booleans()):
        groups.append({"groupName": "other", "numOfHosts": 2, "replicas": draw(st.integers(0, 2))})
    template = draw(st.sampled_from([{}, {"template": {"spec": {"containers": containers}}}]))
    return [{**each, **template} for each in groups]


@st.composite
def _identity_labels(draw: st.DrawFn, group: str, hosts: int) -> dict[str, str]:
    if draw(st.booleans()):
        return {}
    index = {names.LABEL_REPLICA_INDEX: str(draw(st.integers(0, 12)))}
    if hosts == 1:
        return index
    host = str(draw(st.integers(0, hosts - 1)))
    return {**index, names.LABEL_REPLICA_NAME: f"{group[:50]}-xh3hf", names.LABEL_HOST_INDEX: host}


def _sidecar(pod: Object) -> None:
    pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy", "env": [START]})


def _late_sidecar(pod: Object) -> None:
    container = {"name": "agent", "image": "agent", "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or []), container]


def _variable_first(pod: Object) -> None:
    for container in pod["spec"]["containers"]:
        container["env"] = [{"name": "OTEL", "value": "1"}, *(container.get("env") or [])]


def _variables_sorted(pod: Object) -> None:
    for container in pod["spec"]["containers"]:
        container["env"] = sorted(container.get("env") or [], key=lambda entry: entry["name"])


def _variables_removed(pod: Object) -> None:
    for container in pod["spec"]["containers"]:
        container["env"] = [e for e in container.get("env") or [] if e["name"] in THEIRS]


def _devices(pod: Object) -> None:
    pod["spec"]["containers"][-1]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}


def _fields_removed(pod: Object) -> None:
    for name in ("hostname", "subdomain", "schedulingGroup", "affinity"):
        pod["spec"].pop(name, None)


def _annotations_removed(pod: Object) -> None:
    pod["metadata"].pop("annotations", None)


def _selector(pod: Object) -> None:
    pod["spec"]["nodeSelector"] = {
        **(pod["spec"].get("nodeSelector") or {}),
        names.NODE_TPU_TOPOLOGY: "2x2",
    }


OTHERS = st.lists(
    st.sampled_from([
        _sidecar, _late_sidecar, _variable_first, _variables_sorted, _variables_removed, _devices,
        _fields_removed, _annotations_removed, _selector]),
    min_size=1, max_size=3, unique=True)  # fmt: skip
"""Changes of other webhooks, after which the API server calls this one again."""
