"""Ray's container drains and grows in place, pods keep nodes, and waits for the head get more."""

import copy

import pytest

from tests.builders import (
    ClusterBuilder,
    Decided,
    Object,
    PodBuilder,
    a_cluster,
    a_pod,
    container_of,
    decide,
    env_names,
    env_of,
)
from tests.webhook.mutation.pod_resources import effective, is_guaranteed
from webhook.api import names
from webhook.mutation.pod_lifecycle import HOOK
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy

OLD, NEW, UNKNOWN = "rayproject/ray:2.56.1", "rayproject/ray:2.57.0", "registry/of/mine:7"


def a_host() -> PodBuilder:
    return a_pod().of("c").worker("g").identity(0, 0, "g-xh3hf")


def draining(seconds: str = "120", **spec: object) -> ClusterBuilder:
    cluster = a_cluster("c").group("g", hosts=2)
    return cluster.spec(**spec).opting(drain_seconds=seconds)


def a_worker(image: str = NEW, **fields: object) -> PodBuilder:
    """Return a worker with the grace period that the API server fills in."""
    container = {"name": "ray-worker", "image": image, "env": [], **fields}
    pod = a_pod().of("c").worker("g")
    return pod.spec(containers=[container], terminationGracePeriodSeconds=30)


def grace(decided: Decided) -> object:
    return decided.pod["spec"].get("terminationGracePeriodSeconds")


def hook(decided: Decided) -> object:
    """Return the seconds in the `preStop` command of the first container, if that is the hook."""
    lifecycle = decided.pod["spec"]["containers"][0].get("lifecycle") or {}
    command = lifecycle.get("preStop", {}).get("exec", {}).get("command") or [None]
    assert len(command) == 1 or command[:3] == ["python3", "-c", HOOK]
    return command[-1]


def own(value: str) -> list[dict[str, str]]:
    return [{"name": names.RAY_DRAIN_TIMEOUT, "value": value}]


@pytest.mark.parametrize(("pod", "version", "expected"), [
    (a_worker(), None, (150, None)),  # it drains on SIGTERM
    (a_worker(OLD), None, (150, "120")), (a_worker(UNKNOWN), None, (150, "120")),
    (a_worker(UNKNOWN), "2.56.0", (150, "120")), (a_worker(UNKNOWN), "2.57.0", (150, None)),
    (a_worker(UNKNOWN), "x", (150, "120")),
    (a_worker(OLD), "2.60.0", (150, "120")),  # the image decides
    (a_worker(NEW), "2.40.0", (150, None)),
    *((a_worker(OLD, lifecycle=lifecycle), None, (150, "120"))
      for lifecycle in ({}, {"stopSignal": "SIGUSR1"})),
    (a_worker().spec(terminationGracePeriodSeconds=600), None, (600, None)),
    (a_worker().spec(terminationGracePeriodSeconds=60), None, (150, None)),
    (a_worker().spec(terminationGracePeriodSeconds=None), None, (150, None)),
    (a_worker(OLD, env=own("300")), None, (330, "300")),
    (a_worker(OLD, env=own("200000")), None, (200_030, "200000")),
    (a_worker(OLD, env=own("90.5")), None, (121, "91")),
    (a_worker(OLD, env=own("1e400")), None, (10**9 + 30, str(10**9))),
    (a_worker(OLD, env=own("inf")), None, (10**9 + 30, str(10**9))),
    (a_worker(OLD, env=own("5m")), None, (150, "120")),
    (a_worker(OLD, env=own("")), None, (150, "120")),
    *((a_worker(OLD, env=own(value)), None, (30, None))  # no drain
      for value in ("0", "0.0", "-1", "nan")),
])  # fmt: skip
def test_a_worker_has_time_to_drain_and_an_older_ray_is_asked_by_a_hook(
    pod: PodBuilder, version: str | None, expected: tuple[int, str | None]
) -> None:
    decided = decide(pod, draining() if version is None else draining(rayVersion=version))
    assert (grace(decided), hook(decided)) == expected
    before = {each["name"]: each["value"] for each in pod.build()["spec"]["containers"][0]["env"]}
    kept = before.get(names.RAY_DRAIN_TIMEOUT) or "120"
    assert env_of(decided.pod)[names.RAY_DRAIN_TIMEOUT] == kept
    assert not decided.answer.warnings


@pytest.mark.parametrize("kind", ["preStop", "postStart"])
def test_a_lifecycle_of_the_user_stays(kind: str) -> None:
    given = {kind: {"exec": {"command": ["sync"]}}}
    decided = decide(a_worker(OLD, lifecycle=given), draining())
    assert decided.pod["spec"]["containers"][0]["lifecycle"] == given
    assert grace(decided) == 150


@pytest.mark.parametrize(("setting", "text", "expected"), [
    (0, None, None), (60, None, "60"), (60, "120", "120"), (60, "0", None), (0, "0", None),
])  # fmt: skip
def test_annotations_beat_the_setting(setting: int, text: str | None, expected: str | None) -> None:
    cluster = a_cluster("c").group("g") if text is None else draining(text)
    decided = decide(a_worker(), cluster, Policy(drain_seconds=setting))
    assert env_of(decided.pod).get(names.RAY_DRAIN_TIMEOUT) == expected


def test_a_value_that_is_none_warns_and_changes_nothing() -> None:
    decided = decide(a_worker(OLD), draining("2m"))
    assert "'2m'" in decided.answer.warnings[0]
    assert (grace(decided), hook(decided)) == (30, None)


KEPT_NODES = {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}


def a_cluster_with(scope: str) -> ClusterBuilder:
    cluster = a_cluster("c").group("g", hosts=4).group("single")
    return cluster.opting(keep_nodes=scope) if scope else cluster


def kept(pod: Object) -> dict[str, str]:
    annotations = pod["metadata"].get("annotations", {})
    return {key: annotations[key] for key in KEPT_NODES if key in annotations}


@pytest.mark.parametrize(("scope", "head", "host"), [
    ("", {}, {}), ("none", {}, {}), ("heads", KEPT_NODES, {}), ("replicas", {}, KEPT_NODES),
    ("all", KEPT_NODES, KEPT_NODES),
])  # fmt: skip
def test_heads_and_hosts_keep_nodes(scope: str, head: dict[str, str], host: dict[str, str]) -> None:
    cluster = a_cluster_with(scope)
    assert kept(decide(a_pod().of("c").head(), cluster).pod) == head
    assert kept(decide(a_host(), cluster).pod) == host
    assert kept(decide(a_pod().of("c").worker("single"), cluster).pod) == {}


def test_the_annotation_takes_precedence_over_the_setting() -> None:
    policy = Policy(keep_nodes="all")
    assert kept(decide(a_host(), a_cluster_with(""), policy).pod) == KEPT_NODES
    assert kept(decide(a_host(), a_cluster_with("none"), policy).pod) == {}


@pytest.mark.parametrize("key", KEPT_NODES)
def test_a_template_that_sets_one_of_them_is_not_changed(key: str) -> None:
    pod = a_host().annotated(key, "of the user")
    assert kept(decide(pod, a_cluster_with("all")).pod) == {key: "of the user"}


@pytest.mark.parametrize("annotated", [False, True])
def test_a_head_whose_gcs_is_fault_tolerant_is_not_kept(annotated: bool) -> None:
    cluster = a_cluster_with("all")
    if annotated:
        cluster.annotated(names.ANNOTATION_FT_ENABLED, "true")
    else:
        cluster.spec(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    assert kept(decide(a_pod().of("c").head(), cluster).pod) == {}
    assert kept(decide(a_host(), cluster).pod) == KEPT_NODES


@pytest.mark.parametrize(("name", "expected"), [("Accelerator", {}), ("own", KEPT_NODES)])
def test_pods_of_autopilot_are_not_changed(name: str, expected: dict[str, str]) -> None:
    pod = a_host().spec(nodeSelector={names.NODE_COMPUTE_CLASS: name})
    assert kept(decide(pod, a_cluster_with("all")).pod) == expected


def test_an_unknown_value_is_a_warning() -> None:
    decided = decide(a_host(), a_cluster_with("some"))
    assert kept(decided.pod) == {}
    assert any("keep-nodes" in warning for warning in decided.answer.warnings)


BOTH = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "NotRequired"},
]
RESTART_CPU = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}


def listing(*groups: str) -> ClusterBuilder:
    entry = '{"max-cpu": "8", "max-memory": "32Gi", "resize-timeout": 60}'
    text = ", ".join(f'"{group}": {entry}' for group in groups)
    cluster = a_cluster("c").group("g").group("other")
    return cluster.annotated(names.ANNOTATION_IPPR, f'{{"groups": {{{text}}}}}')


def rules_of(decided: Decided) -> list[Object] | None:
    found: list[Object] | None = decided.pod["spec"]["containers"][0].get("resizePolicy")
    return found


def with_rules(*rules: Object, **spec: object) -> PodBuilder:
    return a_worker(resizePolicy=list(rules)).spec(**spec)


def test_only_a_listed_group_gets_both_entries() -> None:
    assert rules_of(decide(a_worker(), listing("g"))) == BOTH
    assert rules_of(decide(a_worker().worker("other"), listing("g"))) is None


@pytest.mark.parametrize(("pod", "listed", "rules", "warning"), [
    (a_pod().of("c").head(), "headgroup", BOTH, ""), (a_pod().of("c").head(), "g", None, ""),
    (with_rules(), "g", BOTH, ""), (with_rules(BOTH[1]), "g", [BOTH[1], BOTH[0]], ""),
    (with_rules(RESTART_CPU), "g", [RESTART_CPU, BOTH[1]], "cpu"),
    (with_rules(RESTART_CPU, restartPolicy="Never"), "g", [RESTART_CPU, BOTH[1]],
     "restartPolicy Never"),
])  # fmt: skip
def test_entries_of_the_user_stay_and_missing_ones_are_appended(
    pod: PodBuilder, listed: str, rules: list[Object] | None, warning: str
) -> None:
    decided = decide(pod, listing(listed))
    assert rules_of(decided) == rules
    assert warning in "".join(decided.answer.warnings[:1])
    assert bool(decided.answer.warnings) == bool(warning)


FEW = {"cpu": "200m", "memory": "256Mi"}
WAIT = names.WAIT_FOR_HEAD


def a_waiting_worker(
    requests: Object, limits: Object | None = None, wait: Object | None = None
) -> PodBuilder:
    """Return a worker whose Ray container has these resources, with KubeRay's init container."""
    pod = a_host()
    for kind, amounts in (("requests", requests), ("limits", limits or {})):
        for resource, amount in amounts.items():
            pod.resource(resource, amount, kind)
    return pod.init(WAIT, resources=wait or {"requests": dict(FEW), "limits": dict(FEW)})


def resources_of_wait(pod: PodBuilder, policy: Policy = DEFAULT_POLICY, hosts: int = 2) -> Object:
    admitted = decide(pod, a_cluster("c").group("g", hosts=hosts), policy).pod
    resources: Object = container_of(admitted, WAIT)["resources"]
    return resources


@pytest.mark.parametrize(("requests", "expected"), [
    ({"cpu": "8", "memory": "64Gi"}, {"cpu": "900m", "memory": "1Gi"}),
    ({"cpu": 8, "memory": "64Gi"}, {"cpu": "900m", "memory": "1Gi"}),
    ({"cpu": "500m", "memory": "512Mi"}, {"cpu": "500m", "memory": "512Mi"}),
    ({"cpu": "100m", "memory": "64Mi"}, FEW),
    ({"cpu": "1", "memory": "0.25Gi"}, {"cpu": "900m", "memory": "256Mi"}),
    ({"cpu": "850m"}, {"cpu": "850m", "memory": "256Mi"}),
    ({}, FEW),
])  # fmt: skip
def test_requests_and_limits_follow_rays_container(requests: Object, expected: Object) -> None:
    for hosts in (1, 2):
        resources = resources_of_wait(a_waiting_worker(requests), hosts=hosts)
        assert resources == {"requests": expected, "limits": expected}


def test_a_limit_alone_is_the_request_too() -> None:
    resources = resources_of_wait(a_waiting_worker({}, {"cpu": "4", "memory": "2Gi"}))
    assert resources["requests"] == {"cpu": "900m", "memory": "1Gi"}


def test_an_operator_that_gives_more_or_nothing_is_left_alone() -> None:
    more = {"cpu": "2", "memory": "2Gi"}
    ray = {"cpu": "8", "memory": "64Gi"}
    assert resources_of_wait(a_waiting_worker(ray, wait={"requests": more, "limits": more})) == {
        "requests": more,
        "limits": more,
    }
    assert resources_of_wait(a_waiting_worker(ray, wait={"limits": FEW})) == {"limits": FEW}
    assert resources_of_wait(a_waiting_worker(ray, wait={"requests": dict(FEW)})) == {
        "requests": {"cpu": "900m", "memory": "1Gi"}
    }


def test_a_limit_above_the_request_is_left_alone_for_the_class_of_the_pod() -> None:
    wait = {"requests": dict(FEW), "limits": {"cpu": "500m", "memory": "512Mi"}}
    equal = {"cpu": "500m", "memory": "512Mi"}
    assert resources_of_wait(a_waiting_worker(equal, equal, wait)) == wait


def test_the_setting_and_other_init_containers() -> None:
    pod = a_waiting_worker({"cpu": "8"})
    off = Policy(raise_wait_gcs_ready=False)
    assert resources_of_wait(pod, off) == {"requests": FEW, "limits": FEW}
    other = pod.init("setup", resources={"requests": dict(FEW)})
    cluster = a_cluster("c").group("g", hosts=2)
    admitted = decide(other, cluster).pod
    assert container_of(admitted, "setup")["resources"] == {"requests": FEW}
    assert decide(admitted, cluster).pod == admitted


@pytest.mark.parametrize("sidecars", [0, 1])
@pytest.mark.parametrize(("requests", "limits"), [
    ({"cpu": "8", "memory": "64Gi"}, {"cpu": "8", "memory": "64Gi"}),
    ({"cpu": "500m", "memory": "300Mi"}, {"cpu": "8", "memory": "64Gi"}),
    ({"cpu": "1"}, {"cpu": "1"}), ({"cpu": "2", "memory": "1Gi"}, {}),
])  # fmt: skip
def test_the_pod_requests_no_more(requests: Object, limits: Object, sidecars: int) -> None:
    pod = a_waiting_worker(requests, limits).build()
    inits = pod["spec"]["initContainers"]
    resources = {"requests": dict(FEW), "limits": dict(FEW)}
    sidecar: Object = {"name": "log", "restartPolicy": "Always", "resources": resources}
    inits[:0] = [copy.deepcopy(sidecar) for _ in range(sidecars)]
    admitted = decide(pod, a_cluster("c").group("g", hosts=2)).pod
    assert admitted["spec"]["initContainers"] != inits
    for resource in ("cpu", "memory"):
        assert effective(admitted, "requests", resource) == effective(pod, "requests", resource)
        if resource in limits:
            assert effective(admitted, "limits", resource) == effective(pod, "limits", resource)
    assert is_guaranteed(admitted) == is_guaranteed(pod)


ZONES = Policy(zones=True)
OF_RAY = {names.RAY_DRAIN_TIMEOUT, names.RAY_NODE_ZONE, names.RAY_OVERRIDE_LABELS}


ASKING = listing("g").opting(replica_label="true", drain_seconds="120")


def behind_a_proxy() -> PodBuilder:
    """Return a pod whose first container is not Ray's, which KubeRay's variable shows."""
    return a_pod().of("c").worker("g").spec(containers=[{"name": "main"}]).behind("proxy")


def second_by_name() -> PodBuilder:
    """Return a pod whose second container is called as in KubeRay's samples."""
    ray = {"name": "ray-worker", "image": "ray", "lifecycle": {"stopSignal": "SIGUSR1"}}
    proxy = {"name": "proxy", "resizePolicy": [], "lifecycle": {"postStart": {"sleep": {}}}}
    return a_pod().of("c").worker("g").spec(containers=[proxy, ray])


@pytest.mark.parametrize(
    "pod", [behind_a_proxy(), second_by_name()], ids=["by the command", "by name"]
)
def test_a_sidecar_in_front_receives_nothing_of_ray(pod: PodBuilder) -> None:
    before = pod.build()["spec"]["containers"]
    after = decide(pod, ASKING, ZONES).pod
    proxy, ray = after["spec"]["containers"]
    assert not OF_RAY & set(env_names(after, "proxy"))
    assert set(env_names(after, ray["name"])) >= OF_RAY
    for key in ("lifecycle", "resizePolicy"):
        assert proxy.get(key) == before[0].get(key)
    assert "preStop" in ray["lifecycle"]
    assert ray["resizePolicy"] == BOTH


def test_without_a_sign_the_first_container_is_that_of_ray() -> None:
    pod = a_pod().of("c").worker("g").spec(containers=[{"name": "a"}, {"name": "b"}]).init("setup")
    after = decide(pod, ASKING, ZONES).pod
    for name in ("a", "b", "setup"):
        container, is_ray = container_of(after, name), name == "a"
        assert OF_RAY & set(env_names(after, name)) == (OF_RAY if is_ray else set())
        assert ("lifecycle" in container) is is_ray
        assert container.get("resizePolicy") == (BOTH if is_ray else None)
