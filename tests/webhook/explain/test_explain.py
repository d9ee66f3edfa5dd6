"""`ray-webhook explain`: pods, rules, variables and diagnoses."""

import json
import re
from collections.abc import Callable

import pytest

from tests import ROOT
from tests.builders import ClusterBuilder, a_cluster
from tests.harness.running import At, Run, Write
from tests.harness.scenes import Scene, llama
from webhook.accelerators.profiles import PROFILES, RENDEZVOUS
from webhook.api import names
from webhook.diagnostics.examination import DIAGNOSES
from webhook.explain.variables import list_variables
from webhook.groups.annotations import ANNOTATIONS
from webhook.mutation.pipeline import HEAD_OPT_INS
from webhook.mutation.ray_pod import Policy
from webhook.validation.rules import RULES

HEAD, WORKER = "llama-head", "llama-tpu-worker-0-3"
Said = Callable[..., str]


@pytest.fixture
def said(at: At) -> Said:
    def call(scene: Scene, pod: str = WORKER) -> str:
        ended = at(scene, "explain", "pod", pod)
        assert ended.status == 0
        return " ".join(ended.out.split())

    return call


def test_a_pod_has_its_identity_and_its_values_with_reasons(said: Said) -> None:
    out = said(Scene())
    assert "host 3 of replica 0" in out
    assert "label ray.io/replica-host-index=3" in out
    assert "Running, created " in out
    assert "✓ hostname=tpu-0-3" in out
    reason = "# index of the host in its slice"
    assert f"✓ TPU_WORKER_ID=3 in ray-worker, wait-gcs-ready {reason}" in out
    for each in ("✗", "preStop", "RAY_NODE_ZONE", "terminationGracePeriodSeconds", "resizePolicy"):
        assert each not in out


def test_values_that_the_pod_lacks_or_that_differ_are_marked(said: Said) -> None:
    out = said(Scene().with_env(WORKER, TPU_WORKER_ID=None, TPU_NAME="mine"))
    assert "✗ TPU_WORKER_ID=3 in ray-worker, wait-gcs-ready: the pod does not have it" in out
    assert "! TPU_NAME=tpu-0 in ray-worker, wait-gcs-ready: the pod has mine" in out
    assert "✗ worker-id-differs" in out
    scene = Scene()
    for pod in [each for each in scene.pods if "worker-0" in each]:
        scene.changed(pod, spec={"subdomain": None})
    assert "✗ subdomain=llama-headless: the pod does not have it" in said(scene)


@pytest.mark.parametrize(("settings", "given"), [
    (Policy(), ["subdomain=llama-headless", "pod anti-affinity=cloud.google.com/gke-nodepool"]),
    (Policy(apart="own"), ["pod anti-affinity=cloud.google.com/gke-nodepool"]),
    (Policy(zones=True), ["RAY_NODE_ZONE=<metadata", "RAY_NODE_REGION=<metadata"]),
    (Policy(drain_seconds=120),
     ["preStop=a drain of 120 s in ray-worker", f"{names.RAY_DRAIN_TIMEOUT}=120 in ray-worker",
     "terminationGracePeriodSeconds="]),
])  # fmt: skip
def test_values_of_settings_are_explained(settings: Policy, given: list[str], said: Said) -> None:
    out = said(Scene(policy=settings))
    for each in given:
        assert f"✓ {each}" in out
    assert "✗" not in out


def test_a_hook_that_a_pod_lacks_is_marked_but_not_beside_another_hook(said: Said) -> None:
    scene = Scene(policy=Policy(drain_seconds=120))
    ray = scene.pods[WORKER]["spec"]["containers"][0]
    drain = ray.pop("lifecycle")
    assert "✗ preStop=a drain of 120 s in ray-worker" in said(scene)
    other = {"postStart": {"exec": {"command": ["true"]}}}
    ray["lifecycle"] = other
    assert "preStop" not in said(scene)
    ray["lifecycle"] = drain | other
    assert "✓ preStop=a drain of 120 s in ray-worker" in said(scene)


def asking(**annotations: str) -> ClusterBuilder:
    cluster = llama()
    for name, value in annotations.items():
        cluster.annotated(getattr(names, f"ANNOTATION_{name}"), value)
    return cluster


IPPR = json.dumps({"groups": {names.HEAD_GROUP: {}}})
SHARD = {"SHARD_GROUP": "search", "SHARD_INDEX": "3", "SHARD_COUNT": "8"}


@pytest.mark.parametrize(("annotations", "settings", "given"), [
    (SHARD, Policy(),
     ["RAY_SHARD_INDEX=3 in ray-head", "RAY_SHARD_GROUP=search", "RAY_SHARD_COUNT=8"]),
    ({"SCHEDULING_GROUP": "cluster"}, Policy(), ["schedulingGroup=llama"]),
    ({"SCHEDULING_GROUP": "worker-group"}, Policy(), ["schedulingGroup=llama"]),
    ({"IPPR": IPPR}, Policy(), ["resizePolicy cpu=NotRequired", "resizePolicy memory"]),
    ({}, Policy(zones=True), ["RAY_NODE_ZONE=<metadata", "RAY_NODE_REGION=<metadata"]),
])  # fmt: skip
def test_the_values_of_a_head_are_explained(
    annotations: dict[str, str], settings: Policy, given: list[str], said: Said
) -> None:
    out = said(Scene(asking(**annotations), policy=settings), HEAD)
    assert "the head of RayCluster llama, which has no identity" in out
    for each in given:
        assert f"✓ {each}" in out
    assert "✗" not in out


def test_values_that_a_head_lacks_or_that_differ_are_marked(said: Said) -> None:
    scene = Scene(asking(**SHARD, SCHEDULING_GROUP="cluster"))
    scene.with_env(HEAD, RAY_SHARD_INDEX="9", RAY_SHARD_COUNT=None)
    out = said(scene.changed(HEAD, spec={"schedulingGroup": None}), HEAD)
    assert "! RAY_SHARD_INDEX=3 in ray-head: the pod has 9" in out
    assert "✗ RAY_SHARD_COUNT=8 in ray-head: the pod does not have it" in out
    assert re.search(r"✗ schedulingGroup=\S+: the pod does not have it", out)


@pytest.mark.parametrize(
    "annotations", [{}, {"SCHEDULING_GROUP": "replica"}, {"DRAIN_SECONDS": "120"}]
)
def test_a_head_without_values_has_a_reason(annotations: dict[str, str], said: Said) -> None:
    out = said(Scene(asking(**annotations)), HEAD)
    assert "sets nothing: in heads, it sets only what is requested by" in out
    assert all(each in out for each in HEAD_OPT_INS)


OWNERLESS = {"ownerReferences": None}
OWNER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "controller": True}
OWNED = {"ownerReferences": [OWNER | {"name": "llama", "uid": "former"}]}
IDENTITYLESS = {"labels": dict.fromkeys((*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX))}
DELETED = {"deletionTimestamp": "2024-11-21T11:59:00Z"}
UNNUMBERED = asking(SHARD_GROUP="search")
WARNED = f"! no shard variables: the RayCluster has no {names.ANNOTATION_SHARD_INDEX} yet"
IGNORED = asking(**SHARD).label(names.LABEL_IGNORE, "true")


@pytest.mark.parametrize(("scene", "pod", "text"), [
    (Scene(UNNUMBERED), HEAD, WARNED), (Scene(UNNUMBERED), WORKER, WARNED),
    (Scene(IGNORED), HEAD, "a RayCluster that the webhook ignores"),
    (Scene().changed(HEAD, metadata=DELETED), HEAD, "the head of RayCluster llama"),
    (Scene().changed(WORKER, metadata=DELETED), WORKER, "host 3 of replica 0"),
    (Scene().changed(WORKER, metadata=IDENTITYLESS), WORKER, "without an identity"),
    (Scene().changed(WORKER, metadata=OWNERLESS), WORKER, "no owner of kind RayCluster"),
    (Scene().changed(WORKER, metadata=OWNED), WORKER, "its RayCluster does not exist, or is being"),
])  # fmt: skip
def test_state_and_warnings_are_explained(scene: Scene, pod: str, text: str, said: Said) -> None:
    assert text in said(scene, pod)


def test_the_most_similar_pod_is_suggested(at: At) -> None:
    ended = at(Scene(), "explain", "pod", "llama-tpu-worker-0-9")
    assert (ended.status, "did you mean llama-tpu-worker-0-" in ended.err) == (2, True)


def test_without_a_name_the_pods_of_the_files_are_named(run: Run, write: Write) -> None:
    scene = Scene(a_cluster("llama").group("tpu", hosts=4, replicas=3))
    pods = write({"apiVersion": "v1", "kind": "PodList", "items": list(scene.pods.values())})
    cluster = write(scene.cluster, name="cluster.yaml")
    for flags, text in (
        ([], "name a pod; `kubectl get pods` lists them"),
        (["--state", pods], "explain: name a pod of the files: "),
        (["--state", pods], "llama-tpu-worker-0-0, "),
        (["--state", pods], f" and {len(scene.pods) - 10} more\n"),
        (["--state", cluster], "there is no Ray pod in what was read"),
    ):
        ended = run("explain", "pod", *flags)
        assert (ended.status, text in ended.err) == (2, True), text


@pytest.mark.parametrize(("kind", "page", "example", "known"), [
    ("rule", "docs/rules.md#", "\nFails, at", [rule.id for rule in RULES]),
    ("diagnosis", "docs/diagnoses.md#", "\n- Example: ", [each.id for each in DIAGNOSES]),
])  # fmt: skip
def test_every_rule_is_explained_with_an_example(
    kind: str, page: str, example: str, known: list[str], run: Run
) -> None:
    for name in known:
        ended = run("explain", kind, name)
        assert (ended.status, f"{page}{name}" in ended.out) == (0, True), name
        assert example in ended.out, name


@pytest.mark.parametrize(("kind", "name"), [
    ("rule", "tpu-topology-mismatch"), ("diagnosis", "host-missing"), ("variable", "TPU_WORKER_ID"),
    ("annotation", "topology-key"), ("profile", "torchrun"),
])  # fmt: skip
def test_a_name_of_one_kind_needs_no_kind(kind: str, name: str, run: Run) -> None:
    assert run("explain", name) == run("explain", kind, name)
    assert run("explain", name).status == 0


def test_rules_and_diagnoses_have_an_example_and_rules_can_be_turned_off(run: Run) -> None:
    assert "\n- Example: replica " in run("explain", "host-missing").out
    out = run("explain", "tpu-topology-mismatch").out
    assert "Fails, at `spec.workerGroupSpecs[0].numOfHosts`:\n\nspec:\n" in out
    assert "\nPasses:\n\nspec:\n" in out
    assert "  validation: {levels: {tpu-topology-mismatch: off}}\n" in out
    assert "validate --rule tpu-topology-mismatch=off\n" in out


def test_every_variable_can_be_explained(run: Run) -> None:
    given = {
        value
        for key, value in vars(names).items()
        if key.startswith(("TPU_", "MEGASCALE_", "PET_", "NCCL_"))
    }
    given |= {names.RAY_SHARD_GROUP, names.RAY_SHARD_INDEX, names.RAY_SHARD_COUNT}
    given |= {names.RAY_NODE_ZONE, names.RAY_NODE_REGION}
    given |= {names.RAY_DRAIN_TIMEOUT, names.RAY_OVERRIDE_LABELS, f"{names.NODE_LABEL}0"}
    of_profiles = {setting.variable for profile in PROFILES for setting in profile.settings}
    given |= of_profiles | {setting.variable for setting in RENDEZVOUS.settings}
    given -= {names.MEGASCALE_NUM_SLICES}  # the user sets it
    variables = list_variables(PROFILES)
    assert set(variables) == given
    assert {name for name in given if "profile" in variables[name].given} == of_profiles
    for name in given:
        assert f"for example: {name}=" in run("explain", "variable", name).out


@pytest.mark.parametrize(("kind", "known"), [
    ("rule", [rule.id for rule in RULES]),
    ("diagnosis", [each.id for each in DIAGNOSES]),
    ("variable", sorted(list_variables(PROFILES))),
    ("annotation", list(ANNOTATIONS)),
])  # fmt: skip
def test_without_a_name_all_are_listed(kind: str, known: list[str], run: Run) -> None:
    status, out, _ = run("explain", kind)
    assert (status, [line.split(maxsplit=1)[0] for line in out.splitlines()]) == (0, known)


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_annotation_is_explained_with_or_without_its_prefix(name: str, run: Run) -> None:
    whole = run("explain", "annotation", name)
    assert whole.status == 0
    assert run("explain", "annotation", name.removeprefix(names.PREFIX)) == whole
    (page,) = re.findall(r"^documentation: (\S+?)(?:#\S*)?$", whole.out, re.MULTILINE)
    assert (ROOT / page).resolve().is_file()


@pytest.mark.parametrize(("kind", "name", "said"), [
    ("diagnosis", "hosts-missing", "did you mean host-missing?"),
    ("variable", "TPU_WORKERID", "did you mean TPU_WORKER_ID?"),
    ("annotation", "topologykey", "did you mean topology-key?"),
    ("rule", "QQQ", "there is no rule QQQ; `ray-webhook explain rule` lists all\n"),
    ("diagnosis", "QQQ", "there is no diagnosis QQQ; `ray-webhook explain diagnosis` lists"),
    ("variable", "QQQ", "the webhook sets no variable QQQ; `ray-webhook explain variable`"),
    ("annotation", "QQQ", "there is no annotation QQQ; `ray-webhook explain annotation` lists"),
])  # fmt: skip
def test_an_unknown_name_is_refused_with_advice(kind: str, name: str, said: str, run: Run) -> None:
    status, _, err = run("explain", kind, name)
    assert (status, said in err) == (2, True)


def test_a_pod_in_a_file_is_explained_as_in_its_cluster(at: At, run: Run, write: Write) -> None:
    scene = Scene().with_env(WORKER, TPU_WORKER_ID="2")
    state = write(at(scene, "status", "-o", "state").out)
    of_cluster = at(scene, "explain", "pod", WORKER)
    assert of_cluster.status == 0
    assert run("explain", "pod", WORKER, "--state", state) == of_cluster
    assert run("explain", "pod", "none", "--state", state).status == 2


def test_a_profile_lists_its_variables(run: Run) -> None:
    out = run("explain", "profile", "efa").out
    assert out.startswith("efa: ")
    assert f"  {names.FI_PROVIDER}=efa\n" in out
    assert f"  {names.VLLM_HOST_IP}=<status.podIP>\n" in run("explain", "profile", "vllm").out


def test_a_profile_of_the_settings_is_explained(run: Run, write: Write) -> None:
    head = {"apiVersion": "config.ray-webhook.dev/v1alpha1", "kind": "Configuration"}
    for value, status, text in (
        ("{master}:99", 0, "  COMM_ID={master}:99\n"),
        ("{mastr}:99", 2, "did you mean master?"),
    ):
        file = write(head | {"profiles": {"fabric": {"COMM_ID": value}}})
        ended = run("explain", "profile", "fabric", "--config", file)
        assert (ended.status, text in ended.out + ended.err) == (status, True)
