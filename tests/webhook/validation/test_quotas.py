"""ResourceQuotas and LimitRanges: which pods of a Ray object fit."""

from collections.abc import Callable, Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
)
from tests.harness.work import RATIO_MAX, lines
from tests.webhook.validation.quota_admission import Admission
from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.namespace_limits import NamespaceLimits, read_namespaces
from webhook.api.objects import RayCluster
from webhook.api.quantity import parse_quantity
from webhook.manifest.kuberay_pods import expand
from webhook.validation.finding import WARN, Finding
from webhook.validation.pod_amounts import PodTemplate, TemplateReader
from webhook.validation.ray_object import read_ray_object
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check, check_update

EXCEEDED = "quota-exceeded"
VIOLATED = "limit-range-violated"
RULES = (EXCEEDED, VIOLATED)


class Namespaces:
    """A namespace with limits, and worker pods of the RayCluster `demo` in it."""

    def __init__(self, documents: Iterable[Json], workers: dict[str, int] | None = None) -> None:
        self.namespaces = read_namespaces([*documents])
        self.numbers = {names.HEAD_GROUP: 1, **(workers or {})}

    def limits(self, namespace: str) -> NamespaceLimits | None:
        return self.namespaces.get(namespace)

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        return self.numbers.get(group, 0) if (namespace, cluster) == ("default", "demo") else 0


def a_quota(hard: Json, used: Json | None = None) -> Json:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "team-a"}, "spec": {"hard": hard}}
    return quota if used is None else quota | {"status": {"hard": hard, "used": used}}


def scoped(scope: str) -> Json:
    """Return a quota that allows no pods in a scope."""
    quota = a_quota({"pods": "0"})
    quota["spec"]["scopes"] = [scope]
    return quota


def a_range(kind: str = "Container", **item: Json) -> Json:
    limits = [{"type": kind, **item}]
    return {"kind": "LimitRange", "metadata": {"name": "sizes"}, "spec": {"limits": limits}}


def forecast(built: Built | Json, *documents: Json, raised: bool = False) -> list[Finding]:
    value = built.build() if isinstance(built, Built) else built
    settings = RuleSettings(namespaces=Namespaces(documents), raise_wait_gcs_ready=raised)
    found = check(value["kind"], value, settings)
    return [each for each in found if each.rule in RULES]


def of_update(old: Built, new: Built, *documents: Json, workers: int = 0) -> list[str]:
    settings = RuleSettings(namespaces=Namespaces(documents, {"workers": workers}))
    found = check_update(new.kind, old.build(), new.build(), settings)
    return [each.message for each in found if each.rule in RULES]


def messages(built: Built, *documents: Json) -> list[str]:
    return [each.message for each in forecast(built, *documents)]


def lacking(need: str, left: int | str, pods: str = "the pods") -> str:
    return f"{pods} need {need}, but ResourceQuota team-a has {left} left: need less, or raise it"


def tpus(replicas: int = 4) -> ClusterBuilder:
    return a_cluster().group(hosts=4, replicas=replicas).tpu("4x4", 4)


def test_a_shortfall_of_devices() -> None:
    quota = a_quota({"requests.google.com/tpu": "48", "google.com/tpu": "0"})
    (found,) = forecast(tpus(), quota)
    assert (found.level, found.rule) == (WARN, EXCEEDED)
    assert found.path == "spec.workerGroupSpecs[0].replicas"
    assert found.message == lacking("64 of requests.google.com/tpu for replicas", 48)
    assert forecast(tpus(3), quota) == []


def test_what_others_use_counts() -> None:
    over = a_quota({"pods": "3"}, {"pods": "5"})
    assert messages(a_cluster(), over) == [lacking("1 of pods", 0)]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ON_ANOTHER = {"clusterSelector": {"ray.io/cluster": "other"}}
MOST = 2147483647
ZERO = {"requests": {"e.com/a": "0"}, "limits": {"e.com/a": "0"}}


@pytest.mark.parametrize(("built", "quota", "refused"), [
    (a_cluster(), a_quota({"pods": "0"}), True),
    (a_cluster().meta(namespace="other"), a_quota({"pods": "0"}), False),
    (a_cluster().autoscaled().group(minReplicas=1, maxReplicas=MOST),
     a_quota({"pods": "2"}), False),
    (a_cluster().autoscaled().group(replicas=5, maxReplicas=MOST), a_quota({"pods": "2"}), True),
    (a_cluster().autoscaled().group(replicas=0, minReplicas=0, maxReplicas=0),
     a_quota({"pods": "1"}), False),
    (a_job().spec(**ON_ANOTHER), a_quota({"pods": "1"}), False),
    (a_job().spec(**ON_ANOTHER), a_quota({"pods": "0"}), True),
    (a_cluster().group().container(resources={"limits": {"cpu": ["1"], "memory": "1Gi"}}),
     a_quota({"limits.memory": "1Gi"}), True),
    # As by the API server, also where others use more than the quota has
    (a_cluster().head_container(resources=ZERO),
     a_quota({"requests.e.com/a": "1"}, {"requests.e.com/a": "2"}), False),
    (a_cluster().meta(deletionTimestamp="2026-01-01T00:00:00Z"), a_quota({"pods": "0"}), False),
    (a_cluster().spec(managedBy=names.KUEUE_MULTIKUEUE), a_quota({"pods": "0"}), False),
    *((a_cluster().group().pod(resources={kind: {"cpu": "8"}}), a_quota({name: most}), refused)
      for kind, name in (("limits", "limits.cpu"), ("requests", "cpu"))
      for most, refused in (("12", False), ("11", True))),  # the head has 4
    *((a_cluster().group().pod(affinity={"podAntiAffinity": {kind: terms}}),
       scoped("CrossNamespacePodAffinity"), refused)
      for kind, terms, refused in (
        (REQUIRED, [{"topologyKey": "a"}], False),
        (REQUIRED, [{"topologyKey": "a"}, {"topologyKey": "b", "namespaces": ["c"]}], True),
        (PREFERRED, [{"podAffinityTerm": {"topologyKey": "a", "namespaceSelector": {}}}], True),
    )),
])  # fmt: skip
def test_what_exceeds_a_quota(built: Built, quota: Json, refused: bool) -> None:
    assert bool(forecast(built, quota)) is refused


@pytest.mark.parametrize(
    ("pods", "field"), [(4, "minReplicas"), (5, "maxReplicas"), (10, "maxReplicas"), (11, "")]
)
def test_an_autoscaled_cluster_needs_its_minimum_first(pods: int, field: str) -> None:
    cluster = a_cluster().autoscaled().group(minReplicas=4, maxReplicas=10, replicas=4)
    found = messages(cluster, a_quota({"pods": str(pods)}))
    assert [each.partition(" for ")[2].partition(",")[0] for each in found] == [field] * bool(field)


@pytest.mark.parametrize("field", ["initContainers", "containers"])
def test_a_container_with_the_name_of_kuberays_is_that_of_the_user(field: str) -> None:
    container = {"name": names.WAIT_FOR_HEAD, "image": "a"}
    spec = {field: [container], "containers": [container]}
    job = a_job().spec(submitterPodTemplate={"spec": spec})
    for built in (job, a_cluster().head(template={"spec": spec})):
        assert forecast(built, a_quota({"pods": "9"}), raised=True) == []


def read_templates(cluster: ClusterBuilder) -> Callable[[], Iterable[PodTemplate]]:
    ray_object = read_ray_object("RayCluster", cluster.build(), RuleSettings())
    return lambda: TemplateReader(NamespaceLimits(()), raised=True).read(ray_object)


def test_the_work_for_containers_with_resources_of_their_own_is_linear() -> None:
    def forecast_of(number: int) -> Callable[[], object]:
        inits: list[Json] = []
        for index in range(number):
            amounts = {f"e.com/{index}": "1"}
            resources = {"requests": amounts, "limits": amounts}
            init = {"name": f"s{index}", "image": "a", "restartPolicy": "Always"}
            inits.append(init | {"resources": resources})
        spec = {"initContainers": inits, "containers": inits}
        return read_templates(a_cluster().head(template={"spec": spec}))

    one, two = (lines(forecast_of(number)) for number in (100, 200))
    assert two / one < RATIO_MAX


def test_the_limits_of_twice_as_many_namespaces_are_twice_the_work() -> None:
    def read_of(number: int) -> Callable[[], object]:
        metadata = ({"name": "team", "namespace": f"team-{index}"} for index in range(number))
        quotas = [a_quota({"pods": "1"}) | {"metadata": each} for each in metadata]
        return lambda: read_namespaces(quotas)

    one, two = (lines(read_of(number)) for number in (100, 200))
    assert two / one < RATIO_MAX


def test_more_amounts_than_can_be_compared_in_time_are_not_compared() -> None:
    resources = {"resources": {"limits": {"e.com/0": "5"}}}
    containers = [{"name": f"c{number}", "image": "a", **resources} for number in range(400)]
    cluster = a_cluster().head(template={"spec": {"containers": containers}})
    few, many = ({f"e.com/{index}": "1" for index in range(number)} for number in (250, 251))
    assert forecast(cluster, a_range(max=few))
    assert forecast(cluster, a_range(max=many)) == []
    assert forecast(cluster, a_range(max=few), a_range(min=few)) == [], "both count"


def test_an_object_that_is_no_longer_suspended_needs_its_pods() -> None:
    quota = a_quota({"pods": "1"})
    old, new = (a_cluster().group(replicas=4).spec(suspend=suspend) for suspend in (True, False))
    assert of_update(old, new, quota)
    assert not of_update(old, new.meta(deletionTimestamp="2026-01-01T00:00:00Z"), quota)


def test_containers_of_kuberay_count() -> None:
    """The autoscaler beside the head, and the init container of workers."""
    bare = a_cluster().head_container(resources={}).autoscaled()
    assert messages(bare, a_quota({"limits.cpu": "499m"}))[-1].startswith("the pods need 500m")
    options = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    own = a_cluster().head_container(resources={}).autoscaled(resources=options)
    assert messages(own, a_quota({"limits.cpu": "1"}))[-1].startswith("the pods need 3 of")
    worker = a_cluster().group().container(resources={"requests": {"cpu": "100m"}})
    said = lacking("4200m of requests.cpu for replicas", "4199m")
    assert messages(worker, a_quota({"requests.cpu": "4199m"})) == [said]


def test_the_pod_that_submits_a_job() -> None:
    quota, limits = a_quota({"pods": "2"}), a_quota({"limits.memory": "16Gi"})
    assert messages(a_job(), quota) == [lacking("3 of pods", 2)]
    assert messages(a_cron_job(a_job()), quota) == messages(a_job(), quota)
    assert "need 17Gi" in messages(a_job(), limits)[0]
    for mode in ("HTTPMode", "InteractiveMode"):
        assert messages(a_job().spec(submissionMode=mode), quota) == []
    sidecar = a_job().spec(submissionMode="SidecarMode")
    assert messages(sidecar, quota) == []
    assert "need 17Gi" in messages(sidecar, limits)[0]
    assert messages(a_job(), a_quota({"count/jobs.batch": "0"})) == [
        "needs 1 of count/jobs.batch, but ResourceQuota team-a has 0 left"
    ]


def test_a_required_amount() -> None:
    cluster = a_cluster().group().container(resources={"requests": {"cpu": "1"}})
    (message,) = messages(cluster, a_quota({"limits.cpu": "100", "pods": "9"}))
    text = "ResourceQuota team-a requires limits.cpu of every container, and ray-worker has none"
    assert message == f"the pods can never be created: {text}"
    default = a_range(default={"cpu": "2"})
    assert messages(cluster, a_quota({"limits.cpu": "100"}), default) == []


AT_MOST, AT_LEAST = "LimitRange sizes allows at most", "LimitRange sizes requires at least"
HEAD, WAIT = "container ray-head", "container wait-gcs-ready"


@pytest.mark.parametrize(("item", "text"), [
    ({"max": {"cpu": "2"}}, f"{HEAD} has a cpu limit of 4, and {AT_MOST} 2"),
    ({"min": {"memory": "9Gi"}}, f"{HEAD} has a memory limit of 8Gi, and {AT_LEAST} 9Gi"),
    ({"max": {"e.com/a": "1"}, "kind": "Pod"}, f"each has no e.com/a limit, and {AT_MOST} 1"),
    ({"max": {"cpu": "3500m"}, "kind": "Pod"}, f"each has a cpu limit of 4, and {AT_MOST} 3500m"),
    ({"min": {"cpu": "0.3"}}, f"{WAIT} has a cpu limit of 200m, and {AT_LEAST} 300m"),
])  # fmt: skip
def test_a_limit_range_that_refuses_pods(item: Json, text: str) -> None:
    found = forecast(a_cluster().group(), a_range(**item))
    assert {each.rule for each in found} == {VIOLATED}
    assert f"the pods can never be created: {text}" in [each.message for each in found]


def test_the_container_that_waits_for_the_head_may_be_raised() -> None:
    limits = a_range(min={"cpu": "900m", "memory": "1Gi"})
    before = messages(a_cluster().group(), limits)
    assert before
    assert not forecast(a_cluster().group(), limits, raised=True)
    small = a_cluster().group().container(resources={"limits": {"cpu": "2", "memory": "512Mi"}})
    assert forecast(small, limits, raised=True)
    assert messages(a_cluster().group(), limits) == before


def test_defaults_of_a_limit_range() -> None:
    free = a_cluster().head_container(resources={"requests": {"cpu": "3"}})
    (message,) = messages(free, a_range(default={"cpu": "2"}))
    text = "container ray-head has a cpu request of 3, above its limit of 2"
    assert message == f"the pods can never be created: {text}"
    free.head_container(name="c" * 64)
    (message,) = messages(free, a_range(default={"cpu": "2"}))
    assert f" container {shorten('c' * 64)} has a cpu request of 3" in message
    ratio = a_range(maxLimitRequestRatio={"cpu": "2"})
    burst = a_cluster().head_container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})
    assert len(messages(burst, ratio)) == 1
    assert messages(a_cluster(), ratio) == []


def test_an_update_counts_its_own_pods_once() -> None:
    quota = a_quota({"pods": "6"}, {"pods": "5"})
    old, new = a_cluster().group(replicas=4), a_cluster().group(replicas=6)
    full = a_quota({"pods": "1"}, {"pods": "1"})
    for same in (a_cluster().group(replicas=4).label("a", "b"), a_cluster().group(replicas=3)):
        assert of_update(old, same, full) == []
    said = lacking("2 of pods for replicas", 1, "the new pods")
    assert of_update(old, new, quota, workers=4) == [said]
    assert of_update(old, a_cluster().group(replicas=5), quota, workers=4) == []
    assert len(of_update(old, a_cluster().group(replicas=5), quota, workers=2)) == 1


def test_an_edited_template_changes_no_running_pods() -> None:
    """Except with the upgrade strategy Recreate, and where a replica gets more hosts."""
    old, new = (
        a_cluster().group(replicas=2).container(resources={"limits": {"cpu": cpu}})
        for cpu in ("1", "8")
    )
    quota = a_quota({"limits.cpu": "9"}, {"limits.cpu": "6"})  # the head has 4
    assert of_update(old, new, quota, workers=2) == []
    assert "need 8 of limits.cpu" in of_update(old, new, quota, workers=1)[0]
    recreate = {"upgradeStrategy": {"type": "Recreate"}}
    said = lacking("20 of limits.cpu for replicas", 9)
    assert of_update(old.spec(**recreate), new.spec(**recreate), quota, workers=2) == [said]
    pods = a_quota({"pods": "5"}, {"pods": "3"})
    hosts = a_cluster().group(replicas=2, hosts=3)
    assert "need 6 of pods" in of_update(a_cluster().group(replicas=2), hosts, pods, workers=2)[0]


def test_pods_that_a_smaller_group_ends_are_free_and_those_of_a_removed_group_run_on() -> None:
    quota = a_quota({"pods": "5"}, {"pods": "5"})
    old, new = (
        a_cluster().group("workers", replicas=few).group("b", replicas=more)
        for few, more in ((4, 0), (2, 2))
    )
    assert of_update(old, new, quota, workers=4) == []
    assert of_update(old, new, quota, workers=3)
    assert of_update(a_cluster().group(replicas=4), a_cluster().group("b"), quota, workers=4)


@pytest.mark.parametrize(("built", "number"), [
    (a_cluster(), 1), (a_cluster().group(hosts=2), 2),
    (a_cluster().annotated(names.ENABLE_SERVE_SERVICE, "true"), 2),
    (a_job(), 1),
    (a_job().spec(clusterSelector={"ray.io/cluster": "a"}), 0),
    (a_service(), 3),
])  # fmt: skip
@pytest.mark.parametrize("name", ["services", "count/services"])
def test_services_of_kuberay_count(built: Built, number: int, name: str) -> None:
    assert messages(built, a_quota({name: str(number)})) == []
    if number:
        (message,) = messages(built, a_quota({name: f"{number * 1000 - 1}m"}))
        assert message.startswith(f"needs {number} of {name}, but ResourceQuota team-a has")


def test_other_objects_of_kuberay_count() -> None:
    roles = a_quota({"count/roles.rbac.authorization.k8s.io": "0"})
    assert messages(a_cluster(), roles) == []
    assert len(messages(a_cluster().autoscaled(), roles)) == 1
    ingresses = a_quota({"count/ingresses.networking.k8s.io": "0"})
    assert len(messages(a_cluster().head(enableIngress=True), ingresses)) == 1
    assert len(messages(a_service(), a_quota({"count/rayclusters.ray.io": "0"}))) == 1


def test_groups_of_equal_templates_are_read_once() -> None:
    cluster = a_cluster()
    for index in range(100):
        cluster.group(f"g{index}").tpu("4x4", 4)
    amounts = [template.amounts for template in read_templates(cluster)()]
    assert len({id(each) for each in amounts}) == 2


def test_a_service_that_starts_a_second_cluster_with_services_of_its_own() -> None:
    quota = a_quota({"pods": "3"}, {"pods": "2"})
    old = a_service().meta(name="demo")
    old.value["status"] = {"activeServiceStatus": {"rayClusterName": "demo"}}
    new = a_service(a_cluster().group().head_env("A", "1")).meta(name="demo")
    said = lacking("2 of pods for replicas beside the old RayCluster", 1)
    assert of_update(old, new, quota, workers=1) == [said]
    assert of_update(old, new, a_quota({"services": "0"})) == [
        "needs 1 of services, but ResourceQuota team-a has 0 left"
    ]
    none = {"upgradeStrategy": {"type": "None"}}
    assert of_update(old.spec(**none), new.spec(**none), quota, workers=1) == []


AMOUNTS = {
    "cpu": st.sampled_from(["0", "1", "100m", "1.5", "0.1005"]),
    "memory": st.sampled_from(["1Gi", "200Mi", "1G", "0", "12345678"]),
    "example.com/device": st.sampled_from(["0", "1", "2"]),
}
TOTALS = {
    "cpu": st.sampled_from(["0", "1", "3", "4200m", "7.1", "20"]),
    "memory": st.sampled_from(["1Gi", "2Gi", "4G", "20Gi", "3250585"]),
    "example.com/device": st.sampled_from(["0", "1", "4", "9"]),
}
NAMES = ("pods", "count/pods", *(
    f"{prefix}{name}" for name in ("cpu", "memory") for prefix in ("", "requests.", "limits.")
), "requests.example.com/device")  # fmt: skip
PRIORITIES = ("", "high", "low")


@st.composite
def resources(draw: st.DrawFn) -> Json:
    limits = draw(st.fixed_dictionaries({}, optional=AMOUNTS))
    device = {name: value for name, value in limits.items() if "/" in name}
    own = {name: amount for name, amount in AMOUNTS.items() if "/" not in name}
    asked = {
        name: amount
        for name, amount in draw(st.fixed_dictionaries({}, optional=own)).items()
        if name not in limits or parse_quantity(amount) <= parse_quantity(limits[name])
    }
    return {"limits": limits, "requests": asked | device}


@st.composite
def templates(draw: st.DrawFn) -> Json:
    spec: Json = {
        "containers": [
            {"name": f"c{index}", "image": "rayproject/ray:2.55.1", "resources": each}
            for index, each in enumerate(draw(st.lists(resources(), min_size=1, max_size=2)))
        ]
    }
    inits: list[Json] = [
        {"name": f"i{index}", "image": "i:1", "resources": each}
        | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})
        for index, each in enumerate(draw(st.lists(resources(), max_size=2)))
    ]
    if inits:
        spec["initContainers"] = inits
    if priority := draw(st.sampled_from(PRIORITIES)):
        spec["priorityClassName"] = priority
    if draw(st.booleans()):
        spec["activeDeadlineSeconds"] = 60
    return {"spec": spec}


@st.composite
def clusters(draw: st.DrawFn) -> Json:
    cluster = a_cluster().head(template=draw(templates()))
    for index in range(draw(st.integers(0, 2))):
        replicas, hosts = draw(st.integers(0, 3)), draw(st.integers(1, 2))
        cluster.group(f"g{index}", hosts=hosts, replicas=replicas, template=draw(templates()))
    return cluster.build()


@st.composite
def quotas(draw: st.DrawFn, name: str = "q") -> Json:
    chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    hard = {each: draw(_total(each)) for each in chosen}
    spec: Json = {"hard": hard}
    if draw(st.booleans()):
        spec["scopes"] = [draw(st.sampled_from(["Terminating", "NotTerminating", "NotBestEffort"]))]
    elif draw(st.booleans()):
        operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
        term: Json = {"scopeName": "PriorityClass", "operator": operator}
        if operator in ("In", "NotIn"):
            term["values"] = draw(
                st.lists(st.sampled_from(PRIORITIES[1:]), min_size=1, unique=True)
            )
        spec["scopeSelector"] = {"matchExpressions": [term]}
    used = {each: draw(_total(each)) for each in chosen if draw(st.booleans())}
    status = {"hard": hard, "used": dict.fromkeys(chosen, "0") | used}
    return {"kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec, "status": status}


def _total(name: str) -> st.SearchStrategy[str]:
    if name.endswith("pods"):
        return st.sampled_from(["0", "1", "3", "5", "9"])
    return TOTALS[name.removeprefix("requests.").removeprefix("limits.")]


@st.composite
def ranges(draw: st.DrawFn, name: str = "r") -> Json:
    item: Json = {"type": draw(st.sampled_from(["Container", "Pod"]))}
    for field in ("max", "min", "maxLimitRequestRatio", "default", "defaultRequest"):
        if draw(st.integers(0, 3)) or (item["type"] == "Pod" and field.startswith("default")):
            continue
        ratio = st.sampled_from(["1", "2", "1.5"])
        item[field] = {
            each: draw(ratio if field.startswith("maxLimit") else amounts)
            for each, amounts in AMOUNTS.items()
            if "/" not in each and draw(st.booleans())
        }
    return {"kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [item]}}


@given(clusters(), st.lists(quotas(), max_size=1), quotas("p"), st.lists(ranges(), max_size=1))
def test_the_forecast_is_true(
    cluster: Json, some: list[Json], quota: Json, limits: list[Json]
) -> None:
    """Pods are created one by one, as KubeRay makes them, until one is refused."""
    namespace = Admission([*some, quota], limits)
    view = msgspec.convert(cluster, RayCluster)
    refusal = None
    for pod in expand(cluster, view):
        refusal = namespace.create(pod)
        if refusal is not None:
            break
    found = forecast(cluster, *some, quota, *limits)
    assert bool(found) == (refusal is not None)
    if refusal is not None:
        said = [each.message for each in found]
        assert any(
            refusal.name in text and any(name in text for name in refusal.resources)
            for text in said
        ), (refusal, said)
