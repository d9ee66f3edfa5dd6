"""`ray-webhook explain`: pods, rules, variables and diagnoses."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import ClusterBuilder, a_cluster
from tests.diagnostics.scenes import Scene, llama
from tests.diagnostics.served import serving
from webhook.accelerators import profiles
from webhook.accelerators.profiles import PROFILES
from webhook.api import names
from webhook.cli.main import main
from webhook.diagnostics.examination import DIAGNOSES
from webhook.explain.variables import given_variables
from webhook.groups.annotations import ANNOTATIONS
from webhook.mutation.pipeline import HEAD_ASKED
from webhook.mutation.ray_pod import Policy
from webhook.validation.rules import RULES

Capture = pytest.CaptureFixture[str]
Explain = Callable[..., str]


HOST = "llama-tpu-worker-0-3"
SHARD = {"SHARD_GROUP": "search", "SHARD_INDEX": "3", "SHARD_COUNT": "8"}
IPPR = json.dumps({"groups": {names.HEAD_GROUP: {}}})


@pytest.fixture
def explain(tmp_path: Path, capsys: Capture) -> Explain:
    """Return the explanation of a pod of a scene, in one line."""

    def run(scene: Scene, pod: str = HOST) -> str:
        with serving(scene, tmp_path) as (_, kubeconfig):
            assert main(["explain", "pod", pod, "--kubeconfig", str(kubeconfig)]) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def asking(**annotations: str) -> ClusterBuilder:
    """Return a RayCluster with some annotations, by the names of their constants."""
    cluster = llama()
    for name, value in annotations.items():
        cluster.annotated(getattr(names, f"ANNOTATION_{name}"), value)
    return cluster


def test_a_pod_is_told_by_its_seat_and_by_what_it_was_given(explain: Explain) -> None:
    out = explain(Scene())
    assert "host 3 of replica 0" in out
    assert "label ray.io/replica-host-index=3" in out
    assert "✓ hostname=tpu-0-3" in out
    assert "✓ TPU_WORKER_ID=3 in ray-worker, wait-gcs-ready # this host's place in its slice" in out
    assert "✗" not in out
    for each in ("preStop", "RAY_NODE_ZONE", "terminationGracePeriodSeconds", "resizePolicy"):
        assert each not in out, "what the settings do not give is not missed"


def test_what_the_pod_does_not_have_is_told_apart(explain: Explain) -> None:
    out = explain(Scene().told(HOST, TPU_WORKER_ID=None, TPU_NAME="mine"))
    assert "✗ TPU_WORKER_ID=3 in ray-worker, wait-gcs-ready: the pod does not have it" in out
    assert "! TPU_NAME=tpu-0 in ray-worker, wait-gcs-ready: the pod has mine" in out
    assert "✗ worker-id-differs" in out


DRAIN = [
    "preStop=a drain of 120 s in ray-worker",
    f"{names.RAY_DRAIN_TIMEOUT}=120 in ray-worker",
    "terminationGracePeriodSeconds=",
]
APART = "affinity, apart in=cloud.google.com/gke-nodepool"
ZONES = ["RAY_NODE_ZONE=<metadata", "RAY_NODE_REGION=<metadata"]
RESIZED = ["resizePolicy cpu=NotRequired", "resizePolicy memory=NotRequired"]


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        (Policy(), ["subdomain=llama-headless", APART]),
        (Policy(apart="own"), [APART]),
        (Policy(zones=True), ZONES),
        (Policy(drain_seconds=120), DRAIN),
        (Policy(resize="all"), RESIZED),
    ],
)
def test_all_that_was_given_is_told_whatever_the_settings_of_the_installation_are(
    explain: Explain, settings: Policy, given: list[str]
) -> None:
    out = explain(Scene(policy=settings))
    for each in given:
        assert f"✓ {each}" in out
    assert "✗" not in out


def test_a_subdomain_that_is_gone_is_missed(explain: Explain) -> None:
    scene = Scene()
    for pod in [each for each in scene.pods if "worker-0" in each]:
        scene.changed(pod, spec={"subdomain": None})
    assert "✗ subdomain=llama-headless: the pod does not have it" in explain(scene)


@pytest.mark.parametrize(
    ("annotations", "settings", "given"),
    [
        (SHARD, Policy(), ["RAY_SHARD_INDEX=3 in ray-head", "RAY_SHARD_GROUP=search",
                           "RAY_SHARD_COUNT=8"]),
        ({"SCHEDULING_GROUP": "cluster"}, Policy(), ["schedulingGroup=llama"]),
        ({"SCHEDULING_GROUP": "worker-group"}, Policy(), ["schedulingGroup=llama"]),
        ({"IPPR": IPPR}, Policy(), RESIZED),
        ({}, Policy(resize="all"), [f"{RESIZED[0]} # it can be resized in place", RESIZED[1]]),
        ({}, Policy(zones=True), ZONES),
    ],
)  # fmt: skip
def test_a_head_is_told_by_what_it_was_given(
    explain: Explain, annotations: dict[str, str], settings: Policy, given: list[str]
) -> None:
    out = explain(Scene(asking(**annotations), policy=settings), "llama-head")
    assert "the head of RayCluster llama, which has no identity" in out
    for each in given:
        assert f"✓ {each}" in out
    assert "✗" not in out


def test_what_a_head_does_not_have_is_told_apart(explain: Explain) -> None:
    scene = Scene(asking(**SHARD, SCHEDULING_GROUP="cluster"))
    scene.told("llama-head", RAY_SHARD_INDEX="9", RAY_SHARD_COUNT=None)
    out = explain(scene.changed("llama-head", spec={"schedulingGroup": None}), "llama-head")
    assert "! RAY_SHARD_INDEX=3 in ray-head: the pod has 9" in out
    assert "✗ RAY_SHARD_COUNT=8 in ray-head: the pod does not have it" in out
    assert re.search(r"✗ schedulingGroup=\S+: the pod does not have it", out)


@pytest.mark.parametrize(
    "annotations", [{}, {"SCHEDULING_GROUP": "replica"}, {"DRAIN_SECONDS": "120"}]
)
def test_why_a_head_is_given_nothing_is_told(explain: Explain, annotations: dict[str, str]) -> None:
    out = explain(Scene(asking(**annotations)), "llama-head")
    assert "sets nothing: in heads, it sets only what is requested by" in out
    assert all(each in out for each in HEAD_ASKED)


WARNED = f"! no shard variables: the RayCluster has no {names.ANNOTATION_SHARD_INDEX} yet"
LABELS = dict.fromkeys((*names.SEAT_LABELS, names.LABEL_LEGACY_REPLICA_INDEX))
ANOTHER = [{"kind": "RayCluster", "name": "llama", "uid": "of-another", "controller": True}]
LEAVING = {"deletionTimestamp": "2026-11-21T11:59:00Z"}


@pytest.mark.parametrize(
    ("scene", "pod", "said"),
    [
        (Scene(asking(SHARD_GROUP="search")), "llama-head", WARNED),
        (Scene(asking(SHARD_GROUP="search")), HOST, WARNED),
        (Scene(asking(**SHARD).labelled(names.LABEL_IGNORE, "true")), "llama-head",
         "a RayCluster that the webhook ignores"),
        (Scene().changed("llama-head", metadata=LEAVING), "llama-head",
         "the head of RayCluster llama"),
        (Scene().changed(HOST, metadata=LEAVING), HOST, "host 3 of replica 0"),
        (Scene().changed(HOST, metadata={"labels": LABELS}), HOST, "without an identity"),
        (Scene().changed(HOST, metadata={"ownerReferences": None}), HOST,
         "it has no owner of kind RayCluster"),
        (Scene().changed(HOST, metadata={"ownerReferences": ANOTHER}), HOST,
         "its RayCluster does not exist, or is being replaced"),
    ],
)  # fmt: skip
def test_a_pod_is_told_as_what_it_is(explain: Explain, scene: Scene, pod: str, said: str) -> None:
    assert said in explain(scene, pod)


def test_the_nearest_pod_is_named(tmp_path: Path, capsys: Capture) -> None:
    with serving(Scene(), tmp_path) as (_, kubeconfig):
        name = "llama-tpu-worker-0-9"
        assert main(["explain", "pod", name, "--kubeconfig", str(kubeconfig)]) == 2
    assert "did you mean llama-tpu-worker-0-" in capsys.readouterr().err


def test_without_a_name_the_pods_of_the_files_are_named(tmp_path: Path, capsys: Capture) -> None:
    assert main(["explain", "pod"]) == 2
    assert "name a pod; `kubectl get pods` lists them" in capsys.readouterr().err
    scene = Scene(a_cluster("llama").group("tpu", hosts=4, replicas=3))
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "PodList",
                                "items": list(scene.pods.values())}))  # fmt: skip
    assert main(["explain", "pod", "--state", str(file)]) == 2
    err = capsys.readouterr().err
    assert "explain: name a pod of the files: " in err
    assert "llama-tpu-worker-0-0, " in err
    assert err.endswith(f" and {len(scene.pods) - 10} more\n")
    empty = tmp_path / "cluster.json"
    empty.write_text(json.dumps(scene.cluster))
    assert main(["explain", "pod", "--state", str(empty)]) == 2
    assert "there is no Ray pod in what was read" in capsys.readouterr().err


@pytest.mark.parametrize("name", [rule.id for rule in RULES])
def test_every_rule_can_be_explained(name: str, capsys: Capture) -> None:
    assert main(["explain", "rule", name]) == 0
    assert f"docs/rules.md#{name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", [diagnosis.id for diagnosis in DIAGNOSES])
def test_every_diagnosis_can_be_explained(name: str, capsys: Capture) -> None:
    assert main(["explain", "diagnosis", name]) == 0
    assert f"docs/diagnoses.md#{name}" in capsys.readouterr().out


def test_every_variable_that_is_given_can_be_explained(capsys: Capture) -> None:
    given = {
        value
        for key, value in vars(names).items()
        if key.startswith(("TPU_", "MEGASCALE_", "PET_", "NCCL_"))
    }
    given |= {
        names.NNODES,
        names.NODE_RANK,
        names.MASTER_ADDR,
        names.MASTER_PORT,
        names.VLLM_HOST_IP,
    }
    given |= {names.RAY_SHARD_GROUP, names.RAY_SHARD_INDEX, names.RAY_SHARD_COUNT}
    given |= {names.RAY_NODE_ZONE, names.RAY_NODE_REGION}
    given |= {names.RAY_DRAIN_TIMEOUT, names.RAY_OVERRIDE_LABELS, f"{names.NODE_LABEL}0"}
    given |= {setting.variable for profile in PROFILES for setting in profile.settings}
    given -= {names.MEGASCALE_NUM_SLICES}  # the user sets it
    assert set(given_variables()) == given
    for name in given:
        assert main(["explain", "variable", name]) == 0
        assert f"for example: {name}=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("rule", [rule.id for rule in RULES]),
        ("diagnosis", [each.id for each in DIAGNOSES]),
        ("variable", sorted(given_variables())),
        ("annotation", list(ANNOTATIONS)),
    ],
)
def test_without_a_name_all_are_listed(kind: str, known: list[str], capsys: Capture) -> None:
    assert main(["explain", kind]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == known


def test_a_pod_has_to_be_named(capsys: Capture) -> None:
    assert main(["explain", "pod"]) == 2
    assert "name a pod" in capsys.readouterr().err


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_an_annotation_is_explained_with_or_without_its_prefix(name: str, capsys: Capture) -> None:
    assert main(["explain", "annotation", name]) == 0
    whole = capsys.readouterr().out
    assert main(["explain", "annotation", name.removeprefix(names.PREFIX)]) == 0
    assert capsys.readouterr().out == whole
    (page,) = re.findall(r"^documentation: (\S+?)(?:#\S*)?$", whole, re.MULTILINE)
    assert (Path(__file__).parents[2] / page).resolve().is_file()


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("rule", "tpu-topology-mismach", "tpu-topology-mismatch"),
        ("diagnosis", "hosts-missing", "host-missing"),
        ("variable", "TPU_WORKERID", "TPU_WORKER_ID"),
        ("annotation", "topologykey", "topology-key"),
    ],
)
def test_the_nearest_name_is_given(kind: str, name: str, near: str, capsys: Capture) -> None:
    assert main(["explain", kind, name]) == 2
    assert f"did you mean {near}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("rule", "there is no rule QQQ; `ray-webhook explain rule` lists all\n"),
        ("diagnosis", "there is no diagnosis QQQ; `ray-webhook explain diagnosis` lists all\n"),
        ("variable", "the webhook sets no variable QQQ; `ray-webhook explain variable` lists"),
        ("annotation", "there is no annotation QQQ; `ray-webhook explain annotation` lists"),
    ],
)
def test_where_no_name_is_near_it_says_where_all_are(kind: str, said: str, capsys: Capture) -> None:
    assert main(["explain", kind, "QQQ"]) == 2
    assert said in capsys.readouterr().err


def test_a_pod_of_a_state_in_a_file_is_explained_as_that_of_its_cluster(
    tmp_path: Path, capsys: Capture
) -> None:
    pod = "llama-tpu-worker-0-3"
    scene = Scene().told(pod, TPU_WORKER_ID="2")
    with serving(scene, tmp_path) as (_, kubeconfig):
        main(["status", "--kubeconfig", str(kubeconfig), "-o", "state"])
        state = tmp_path / "state.json"
        state.write_text(capsys.readouterr().out)
        assert main(["explain", "pod", pod, "--kubeconfig", str(kubeconfig)]) == 0
    of_cluster = capsys.readouterr().out
    assert main(["explain", "pod", pod, "--state", str(state)]) == 0
    assert capsys.readouterr().out == of_cluster
    assert main(["explain", "pod", "none", "--state", str(state)]) == 2


def test_a_profile_lists_its_variables(capsys: Capture) -> None:
    assert main(["explain", "profile", "efa"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("efa: ")
    assert f"  {names.FI_PROVIDER}=efa\n" in out
    assert main(["explain", "profile", "vllm"]) == 0
    assert f"  {names.VLLM_HOST_IP}=<status.podIP>\n" in capsys.readouterr().out


def test_a_profile_of_the_settings_is_explained(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "BY_NAME", {**profiles.BY_NAME})
    file = tmp_path / "settings.yaml"
    head = "apiVersion: config.ray-webhook.dev/v1alpha1\nkind: Configuration\n"
    file.write_text(head + 'profiles: {fabric: {COMM_ID: "{master}:99"}}\n')
    assert main(["explain", "profile", "fabric", "--config", str(file)]) == 0
    assert "  COMM_ID={master}:99\n" in capsys.readouterr().out
    file.write_text(head + 'profiles: {fabric: {COMM_ID: "{mastr}:99"}}\n')
    assert main(["explain", "profile", "fabric", "--config", str(file)]) == 2
    assert "did you mean master?" in capsys.readouterr().err
