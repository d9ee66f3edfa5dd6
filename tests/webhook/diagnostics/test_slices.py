"""Slices of a multi-slice job: ids that do not match, and hosts that Kueue exchanged."""

import pytest

from tests.builders import a_cluster
from tests.harness.scenes import Scene, job, llama, llama_of
from webhook.api import names
from webhook.diagnostics.assigned_pods import asks_for_tpu
from webhook.diagnostics.diagnosis import Problem
from webhook.objects.live_objects import LivePod

LEVEL = "cloud.google.com/gce-topology-block"


def scaled(scene: Scene, replicas: int, *gone: int) -> Scene:
    """Return the scene with another number of replicas, of which some are gone."""
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = replicas
    return scene.without(*(name for name in list(scene.pods) for i in gone if f"-{i}-" in name))


def of(scene: Scene, name: str = "slice-left-out") -> list[Problem]:
    return [each for each in scene.examined().every_problem if each.id == name]


def test_a_job_whose_slices_have_their_number_is_well() -> None:
    assert job(2).ids() == []
    assert job(3, slices=3).ids() == []


def test_after_three_become_two_the_replica_whose_id_is_too_high_is_to_go() -> None:
    (found,) = of(scaled(job(3), 2, 1))
    assert (found.replica, found.level) == (2, "error")
    assert "has slice id 2, which is not below 2" in found.message
    assert found.remedy == "delete this replica, so that it is recreated with the lowest free id"
    pods = " ".join(f"llama-tpu-0-worker-2-{host}" for host in range(4))
    assert found.command == f"kubectl get pod -n team -o wide {pods}"
    assert found.change is not None
    assert found.change.command == f"kubectl delete pod -n team {pods}"


def test_slices_that_have_another_number_are_all_to_come_up_anew() -> None:
    scene = scaled(job(3, slices=3), 2, 1)
    env = scene.pods["llama-tpu-0-worker-2-3"]["spec"]["initContainers"][0]["env"]
    next(entry for entry in env if entry["name"] == names.MEGASCALE_NUM_SLICES)["value"] = "4"
    found = of(scene)
    assert [each.replica for each in found] == [0, 2]
    for each in found:
        assert "has MEGASCALE_NUM_SLICES=3, and its group has 2 replicas" in each.message
        assert each.remedy.startswith("set MEGASCALE_NUM_SLICES to 2 in the template, then delete")


def test_while_a_replica_is_too_many_it_is_the_one_with_the_highest_id() -> None:
    scene = scaled(job(3), 2)
    created = {"creationTimestamp": "2024-11-21T11:30:00Z"}
    scene.changed(*(f"llama-tpu-0-worker-1-{host}" for host in range(4)), metadata=created)
    assert scene.ids() == ["replica-beyond-desired"]
    (found,) = of(scene, "replica-beyond-desired")
    assert set(found.pods) == {f"llama-tpu-0-worker-2-{host}" for host in range(4)}
    assert "the highest ids" in found.remedy
    source = {"fieldRef": {"fieldPath": "metadata.annotations['slices']"}}
    workers = [pod["spec"] for name, pod in scene.pods.items() if "worker" in name]
    for container in (c for spec in workers for c in spec["containers"] + spec["initContainers"]):
        for entry in container["env"]:
            if entry["name"] == names.MEGASCALE_NUM_SLICES:
                entry.update(value="", valueFrom=source)
    (found,) = of(scene, "replica-beyond-desired")
    assert "the highest ids" in found.remedy, "the number of slices may come from a field"


def test_the_slices_of_a_job_count_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, read = 12, []

    def asks(pod: LivePod) -> bool:
        read.append(pod)
        return asks_for_tpu(pod)

    monkeypatch.setattr("webhook.diagnostics.replica_problems.asks_for_tpu", asks)
    assert of(job(*[1] * groups, slices=groups)) == []
    assert len(read) == 3 * groups


def test_groups_that_are_no_job_and_those_that_are_to_go_have_no_slices() -> None:
    assert of(scaled(Scene(llama(3)), 2, 1)) == []
    assert of(scaled(job(3), 0)) == []


def test_a_job_over_two_groups_counts_the_slices_of_both() -> None:
    assert of(job(1, 1)) == []
    assert [(each.group, each.replica) for each in of(job(1, 1, slices=3))] == [
        ("tpu-0", 0),
        ("tpu-1", 0),
    ]


def placed(replicas: int) -> Scene:
    """Return slices that Kueue keeps within blocks of nodes, all in one but the last host."""
    annotations = {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: LEVEL}
    cluster = llama_of({"metadata": {"annotations": annotations}}, replicas)
    scene = Scene(cluster.label(names.LABEL_KUEUE_QUEUE, "tpus"))
    for node in scene.nodes:
        node["metadata"]["labels"] = {LEVEL: "first"}
    assert scene.ids() == []
    scene.nodes[-1]["metadata"]["labels"][LEVEL] = "second"
    return scene


def test_the_level_of_kueue_is_the_domain_of_a_replica() -> None:
    (found,) = of(placed(2), "replica-split")
    assert found.replica == 1
    assert f"run in 2 domains of {LEVEL}: first, second" in found.message
    assert found.remedy.startswith("give each replica a group of its own")
    assert found.command == "kubectl get raycluster -n team llama -o yaml"


def test_nodes_that_pods_of_compute_domains_do_not_share_are_no_domains() -> None:
    gpus = {"name": "ray-worker", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    cluster = a_cluster("llama").group("g", hosts=2, template={"spec": {"containers": [gpus]}})
    scene = Scene(cluster.opting(compute_domain="replica"))
    for node in scene.nodes:
        node["metadata"]["labels"] = {names.LABEL_HOSTNAME: node["metadata"]["name"]}
    assert of(scene, "replica-split") == []


def test_a_replica_that_is_alone_in_its_group_is_created_again() -> None:
    (found,) = of(placed(1), "replica-split")
    assert found.remedy == "delete the pods, so that they are scheduled to one domain"
