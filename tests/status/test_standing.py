"""Where pods stand, and how hosts and replicas are shown."""

from time import process_time

from msgspec import structs

from tests.builders import a_cluster
from tests.status.scenes import NOW, Scene, instant, llama
from webhook.kube import names
from webhook.status.examination import examine
from webhook.status.model import Host, Replica

SEAT = dict.fromkeys(names.SEAT_LABELS)


def replica(scene: Scene, number: int = 0) -> Replica:
    """Return a replica of the only group."""
    return scene.examined().clusters[0].groups[0].replicas[number]


def host(scene: Scene, number: int = 3) -> Host:
    """Return a host of the first replica."""
    return replica(scene).hosts[number]


def test_all_hosts_of_all_replicas_are_shown_in_order() -> None:
    group = Scene().examined().clusters[0].groups[0]
    assert [each.index for each in group.replicas] == [0, 1]
    assert [[place.index for place in each.hosts] for each in group.replicas] == [[0, 1, 2, 3]] * 2
    assert {each.state for each in group.replicas} == {"complete"}


def test_a_host_says_its_pod_and_node() -> None:
    found = host(Scene())
    assert (found.pods, found.node) == (("llama-tpu-worker-0-3",), "node-0-3")


def test_a_pod_that_is_being_deleted_is_counted_and_no_more() -> None:
    scene = Scene().changed("llama-tpu-worker-0-3", metadata={"deletionTimestamp": instant(60)})
    cluster = scene.examined().clusters[0]
    assert cluster.leaving == 1
    assert host(scene).state == "missing"


def test_a_pod_without_a_node_is_pending_and_one_with_a_node_starts() -> None:
    waits = {"phase": "Pending", "conditions": None}
    scene = Scene().changed("llama-tpu-worker-0-3", status=waits, spec={"nodeName": None})
    assert host(scene).state == "pending"
    assert (
        host(scene.changed("llama-tpu-worker-0-3", spec={"nodeName": "node"})).state == "starting"
    )


def test_a_pod_that_has_ended_is_shown_as_failed() -> None:
    scene = Scene().changed("llama-tpu-worker-0-3", status={"phase": "Failed", "conditions": None})
    assert host(scene).state == "failed"


def test_a_replica_that_comes_up_is_not_called_waiting() -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    for name in scene.pods:
        scene.changed(name, metadata={"creationTimestamp": instant(5)})
    assert replica(scene).state == "coming"
    assert not scene.examined().waits
    assert scene.examined(NOW + 60).waits


def test_a_replica_that_is_missing_is_shown_without_an_index() -> None:
    scene = Scene().without(*(f"llama-tpu-worker-1-{each}" for each in range(4)))
    found = replica(scene, 1)
    assert (found.index, found.state, found.ready, len(found.hosts)) == (None, "missing", 0, 4)


def test_the_end_of_a_pod_says_since_when_its_host_is_missing() -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    about = {"kind": "Pod", "name": "llama-tpu-worker-0-3", "uid": "uid-of-it"}
    end = {"reason": "Killing", "involvedObject": about, "lastTimestamp": instant(720)}
    scene.events.append({"metadata": {"name": "end", "namespace": "team"}, **end})
    (trouble,) = scene.examined().every_trouble
    assert trouble.since == NOW - 720


def test_a_suspended_raycluster_lacks_nothing() -> None:
    scene = Scene(llama(suspend=True)).without(*Scene(llama()).pods)
    assert scene.ids() == []


def test_the_seats_that_a_former_webhook_gave_count() -> None:
    scene = Scene()
    for number in range(4):
        scene.changed(f"llama-tpu-worker-0-{number}", metadata={"labels": SEAT})
    assert replica(scene).name == "tpu-0"
    assert scene.ids() == []


def test_pods_of_a_group_with_single_hosts_have_one_label() -> None:
    scene = Scene(a_cluster("llama").group("cpu", replicas=3))
    group = scene.examined().clusters[0].groups[0]
    assert [each.index for each in group.replicas] == [0, 1, 2]
    assert scene.ids() == []


def test_seats_that_kuberay_gave_are_as_good_as_ours() -> None:
    assert Scene(indexed=True).ids() == []


def test_what_could_not_be_read_is_not_missed() -> None:
    scene = Scene()
    scene.services.clear()
    assert scene.ids() == ["headless-service-missing"]
    unread = structs.replace(scene.observed(), services=None)
    assert examine(unread, NOW).every_trouble == []


def test_a_single_host_without_a_tpu_needs_no_seat() -> None:
    scene = Scene(a_cluster("llama").group("cpu", replicas=2))
    for name in [name for name in scene.pods if name != "llama-head"]:
        scene.changed(name, metadata={"labels": {names.LABEL_REPLICA_INDEX: None}})
    assert scene.ids() == []
    assert len(scene.examined().clusters[0].groups[0].unseated) == 2


def test_a_raycluster_that_is_being_deleted_lacks_nothing() -> None:
    scene = Scene().without(*Scene().pods)
    assert scene.ids() == ["head-missing", "replica-missing"]
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    assert scene.ids() == []


def test_a_thousand_pods_are_examined_in_under_a_second_of_the_processor() -> None:
    observed = Scene(llama(replicas=250)).observed()
    begun = process_time()
    picture = examine(observed, NOW)
    assert process_time() - begun < 1.0
    assert len(picture.clusters[0].groups[0].replicas) == 250
    assert picture.every_trouble == []


def test_a_raycluster_that_asks_for_more_than_there_can_be_is_looked_at_in_no_time() -> None:
    most = 2**31 - 1
    overlay = {"replicas": most, "maxReplicas": most, "numOfHosts": most}
    scene = Scene()
    (group,) = scene.cluster["spec"]["workerGroupSpecs"]
    group.update(overlay)
    (cluster,) = scene.examined().clusters
    (shown,) = cluster.groups
    assert shown.desired == most
    assert sum(len(replica.hosts) for replica in shown.replicas) < 40_000
    group.update(numOfHosts=0)
    (cluster,) = scene.examined().clusters
    assert sum(len(replica.hosts) for replica in cluster.groups[0].replicas) < 40_000
    assert len(cluster.groups[0].replicas) < 40_000
