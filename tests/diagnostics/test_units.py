"""A worker group that is one job, in `status` and on the dashboard."""

from rich.console import Console

from tests.builders import ClusterBuilder, a_cluster
from tests.diagnostics.scenes import Scene
from webhook.api import names
from webhook.cli.cluster_tree import drawing
from webhook.dashboard.view import listed


def ranks(replicas: int = 4) -> ClusterBuilder:
    """Return a RayCluster whose single hosts with GPUs are one job."""
    container = {"name": "ray-worker", "image": "rayproject/ray:2.54.0"}
    template = {"spec": {"containers": [{**container, "resources": {"limits": _GPUS}}]}}
    group = a_cluster("llama").group("ranks", replicas=replicas, template=template)
    return group.annotated(names.ANNOTATION_UNIT, "worker-group")


_GPUS = {"nvidia.com/gpu": "8"}


def resized(replicas: int) -> Scene:
    """Return a unit of four hosts whose RayCluster asks for another number now."""
    scene = Scene(ranks())
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = replicas
    return scene


def test_a_unit_whose_hosts_are_ready_is_well_and_one_row() -> None:
    scene = Scene(ranks())
    assert scene.ids() == []
    console = Console(width=120, record=True)
    console.print(*drawing(scene.examined()).renderables)
    (row,) = [line for line in console.export_text().splitlines() if "one job" in line]
    assert row.split()[:2] == ["ranks", "unit"]
    assert "4/4" in row


def test_the_page_says_how_many_hosts_a_unit_has() -> None:
    (cluster,) = Scene(ranks()).examined().clusters
    assert listed(cluster).groups[0].note == "4 wanted; one unit of 4 hosts"


def test_pods_that_were_created_for_another_size_are_found() -> None:
    found = [each for each in resized(5).examined().every_problem if each.id == "hosts-changed"]
    assert [each.replica for each in found] == [0, 1, 2, 3]
    for each in found:
        assert "another number of hosts of its unit than 5" in each.message
        assert "NNODES=4" in each.message


def test_names_of_a_unit_need_the_service() -> None:
    scene = Scene(ranks())
    scene.services.clear()
    assert scene.ids() == ["headless-service-missing"]


def restarted(scene: Scene, *replicas: int) -> Scene:
    """Return a scene in which Ray's container of some hosts has restarted once."""
    for name, pod in list(scene.pods.items()):
        if pod["metadata"]["labels"].get(names.LABEL_REPLICA_INDEX) in map(str, replicas):
            end = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-21T11:40:00Z"}
            status = {"name": "ray-worker", "ready": True, "restartCount": 1}
            status["lastState"] = {"terminated": end}
            scene.changed(name, status={"containerStatuses": [status]})
    return scene


def test_a_host_of_a_unit_that_restarted_alone_is_found() -> None:
    (found,) = restarted(Scene(ranks()), 2).examined().every_problem
    assert (found.id, found.replica, found.hosts) == ("host-restarted", 2, (0,))
    assert "restart all hosts of the group" in found.remedy
    assert found.change is not None
    assert found.change.command.count("ranks") == 4
    assert restarted(Scene(ranks()), 0, 1, 2, 3).ids() == []
