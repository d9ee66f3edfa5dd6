"""Devices and profiles in settings: which values are valid, and that pods receive them."""

import pytest

from tests.builders import NAMESPACE, a_cluster, a_pod, decide, env_of
from tests.harness import ray_objects
from tests.harness.ray_objects import found
from tests.harness.scenes import NOW, Scene
from webhook.accelerators.devices import add_devices, own_device
from webhook.accelerators.profiles import PROFILES, Profiles, add_profiles, own_profile
from webhook.api import names
from webhook.diagnostics.examiner import examine
from webhook.explain.variables import list_variables
from webhook.mutation.ray_pod import Policy
from webhook.objects.object_cache import ObjectCache
from webhook.validation.rule_settings import RuleSettings

FABRIC = {"fabric": {"MY_SIZE": "{hosts}x{devices}"}}
GAUDI = {"HPU": ["habana.ai/gaudi"]}
LIMITS = {"limits": {"habana.ai/gaudi": "8"}}


def test_hosts_of_an_own_device_meet_by_an_own_profile() -> None:
    variables = {
        "HCCL_COMM_ID": "{MASTER_ADDR}:5555",
        "MY_RANK": "host-{rank}",
        "MY_SIZE": "{hosts}x{devices}",
    }
    policy = Policy(devices=add_devices(GAUDI), profiles=add_profiles({"fabric": variables}))
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.opting(profiles="fabric")
    pod = a_pod().worker("g").of("c").resource("habana.ai/gaudi", "8").identity(0, 1, "g-xh3hf")
    env = env_of(decide(pod, cluster, policy).pod)
    assert env["HCCL_COMM_ID"] == f"g-0-0.c-headless.{NAMESPACE}.svc:5555"
    assert (env["MY_RANK"], env["MY_SIZE"]) == ("host-1", "2x8")
    without = env_of(decide(pod, cluster).pod)
    assert without.keys().isdisjoint((*variables, names.NNODES)), "a policy changes no other"


def test_claims_of_an_own_device_have_no_number() -> None:
    profiles = add_profiles({"fabric": {"SIZE": "{devices}"}})
    policy = Policy(devices=add_devices({"HPU": ["hpus"]}), profiles=profiles)
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.opting(profiles="fabric")
    pod = a_pod().worker("g").of("c").build()
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "all-hpus"}]}
    env = env_of(decide(pod, cluster, policy).pod)
    assert env[names.NNODES] == "2"
    assert "SIZE" not in env


@pytest.mark.parametrize(("profiles", "name", "rules"), [
    (add_profiles(FABRIC), "fabric", set()),
    (add_profiles(FABRIC), "fabrik", {"annotation-value-invalid"}),
    (PROFILES, "fabric", {"annotation-value-invalid"}),
])  # fmt: skip
def test_rules_know_own_devices_and_profiles(
    profiles: Profiles, name: str, rules: set[str]
) -> None:
    chosen = ray_objects.a_cluster().group(hosts=2).annotated(names.ANNOTATION_PROFILES, name)
    cluster = chosen.build()
    for group in cluster["spec"]["workerGroupSpecs"]:
        (container, *_) = group["template"]["spec"]["containers"]
        container["resources"] = LIMITS
    settings = RuleSettings(devices=add_devices(GAUDI), profiles=profiles)
    assert {rule for rule, _ in found(cluster, settings) if rule.startswith("annotation")} == rules


def test_variables_of_own_devices_are_diagnosed_by_a_process_with_their_settings() -> None:
    policy = Policy(devices=add_devices(GAUDI), profiles=add_profiles(FABRIC))
    container = {"name": "ray-worker", "resources": LIMITS}
    template = {"spec": {"containers": [container]}}
    scene = Scene(a_cluster("llama").group("g", hosts=2, template=template), policy=policy)
    for pod in scene.pods:
        if "worker" in pod:
            scene.with_env(pod, **{names.NNODES: "3"})
    objects = ObjectCache(devices=policy.devices, profiles=policy.profiles)
    report = examine(scene.observed().load(objects), NOW)
    assert [problem.id for problem in report.every_problem] == ["hosts-changed"]


def test_an_own_profile_is_explained_with_its_variables() -> None:
    assert list_variables(add_profiles(FABRIC))["MY_SIZE"].example == "2x8"


@pytest.mark.parametrize(("name", "variables", "complaint"), [
    ("None!", {}, "not a name of a profile"), ("none", {}, "not a name of a profile"),
    ("torchrun", {}, "exists"),
    ("own", {"A": "{hots}"}, "did you mean hosts"),
    ("own", {"A": "{nowhere_at_all}"}, "known are hosts, rank"),
    ("own", {"A": "{rank} of {hosts}"}, "stands beside no other"),
    ("own", {"A": "{"}, "braces are for names"),
    ("own", {"A B": "1"}, "no variable that a profile can set"),
    ("own", {"WORLD_SIZE": "{hosts}"}, "no variable that a profile can set"),
])  # fmt: skip
def test_an_invalid_profile_says_why(name: str, variables: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        own_profile(name, variables)


@pytest.mark.parametrize(("name", "keys", "complaint"), [
    ("GPU", ["example.com/x"], "exists"),
    ("mine", ["nvidia.com/gpu"], "is GPU already"),
    ("mine", ["a/b/c"], "not an extended resource"),
])  # fmt: skip
def test_a_device_that_cannot_be_says_why(name: str, keys: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        own_device(name, keys)
