"""The incremental report: RayClusters diagnosed one by one have the same results as all at once."""

import pytest
from msgspec import structs

from tests.harness.dashboard_page import Setup, renamed
from tests.harness.scenes import NOW, Observed, Scene, instant, job, llama
from tests.webhook.diagnostics.samples import Sample, samples
from webhook.diagnostics.examiner import QUIET_SECONDS, RESTLESS_SECONDS

BESIDE = Scene(llama(replicas=1))


def together(*parts: Observed) -> Observed:
    fields = (
        *("clusters", "pods", "pod_groups", "events", "services", "nodes", "namespaces"),
        *("ray_jobs", "ray_services", "workloads"),
    )
    lists = {name: [each for p in parts for each in getattr(p, name) or ()] for name in fields}
    return structs.replace(parts[0], **lists)


@pytest.mark.parametrize("sample", samples().values(), ids=samples())
def test_each_diagnosis_is_found_as_in_one_look_at_everything(sample: Sample) -> None:
    scene = sample.scene()
    parts = [scene.observed(), renamed(BESIDE, "team", "llama2"), renamed(scene, "other", "llama")]
    setup = Setup(*parts)
    whole = together(*parts).examined(NOW)
    assert setup.live.examiner.cluster_report(NOW, {}) == whole


def test_a_host_that_goes_and_comes_is_seen_and_nothing_else_is_looked_at() -> None:
    scene = Scene()
    setup = Setup(scene.observed(), renamed(Scene(), "other", "qwen"))
    examiner = setup.live.examiner
    host = scene.pods["llama-tpu-worker-0-3"]
    setup.drop_pods([host])
    assert examiner.due(NOW) == ["uid-of-llama"]
    assert examiner.examine("uid-of-llama", NOW)
    assert [one.id for one in examiner.clusters["uid-of-llama"].problems] == ["host-missing"]
    setup.put_pods([host])
    assert examiner.due(NOW) == ["uid-of-llama"]
    assert examiner.examine("uid-of-llama", NOW)
    assert not examiner.clusters["uid-of-llama"].problems


def test_a_label_that_leaves_nobody_alone_is_not_reported() -> None:
    scene = samples()["ignored"].scene().without("llama-tpu-worker-0-3")
    setup = Setup(scene.observed(), ignoring=False)
    examiner = setup.live.examiner
    problems = examiner.cluster_report(NOW, {}).every_problem
    assert [each.id for each in problems] == ["host-missing"]
    assigned = examiner.assigned("uid-of-llama", NOW)
    assert assigned is not None
    assert not assigned.ignored


def test_a_pod_that_only_has_a_new_version_is_no_change() -> None:
    scene = Scene()
    setup = Setup(scene.observed())
    again = scene.pods["llama-tpu-worker-0-3"]
    again["metadata"]["resourceVersion"] = "7"
    setup.put_pods([again])
    assert setup.live.examiner.due(NOW) == []


@pytest.mark.parametrize(("kind", "uid"), [
    ("nodes", "nodes/None/node-0-3"), ("services", "services/team/llama-headless"),
    ("pod_groups", "pod_groups/team/llama-worker-tpu-2xk9b"),
])  # fmt: skip
@pytest.mark.parametrize("subdomain", ["llama-headless", None])
def test_what_pods_use_makes_a_raycluster_due(kind: str, uid: str, subdomain: str | None) -> None:
    scene = samples()["podgroup-not-scheduled"].scene()
    scene.changed("llama-tpu-worker-0-2", spec={"nodeName": "node-0-3"})
    scene.changed(*scene.pods, spec={"subdomain": subdomain})
    setup = Setup(scene.observed(), renamed(Scene(), "other", "qwen"))
    getattr(setup.object_cache, kind).remove(uid)
    assert setup.live.examiner.due(NOW) == ["uid-of-llama"]


def test_what_time_alone_changes_is_examined_when_it_does_and_the_rest_rarely() -> None:
    lacking = Scene(llama(replicas=1)).without("llama-tpu-worker-0-3")
    setup = Setup()
    setup.now = NOW - 3599.0
    setup.load(lacking.observed())
    setup.load(renamed(Scene(llama(replicas=1)), "other", "qwen"))
    setup.examine_changed()
    examiner = setup.live.examiner
    assert not examiner.clusters["uid-of-llama"].problems
    assert examiner.due(setup.now + RESTLESS_SECONDS) == []
    assert examiner.due(setup.now + 60.0) == ["uid-of-llama"]
    assert set(examiner.due(setup.now + QUIET_SECONDS)) == {"uid-of-llama", "uid-of-other-qwen"}
    setup.now += 60.0
    setup.examine_changed()
    assert [one.id for one in examiner.clusters["uid-of-llama"].problems] == ["host-missing"]


def test_a_refusal_that_grows_old_is_noticed_at_once() -> None:
    scene = samples()["pod-refused"].scene()
    scene.events[0]["lastTimestamp"] = instant(1000)
    examiner = Setup(scene.observed()).live.examiner
    assert examiner.due(NOW + 99) == []
    assert examiner.due(NOW + 100) == ["uid-of-llama"]


def test_an_edit_that_only_changes_the_template_changes_the_remedy() -> None:
    scene = Scene(llama(replicas=1))
    names = ",".join(f"tpu-0-{host}.llama-headless" for host in range(8))
    for name in scene.workers:
        scene.with_env(name, TPU_WORKER_HOSTNAMES=names)
    setup = Setup(scene.observed())
    for ago, remedy in ((3900, "remove TPU_WORKER_HOSTNAMES from the"), (60, "delete it")):
        manager = {"manager": "kubectl", "time": instant(ago), "fieldsV1": {"f:spec": {}}}
        scene.cluster["metadata"]["managedFields"] = [manager]
        setup.put_cluster(scene.cluster)
        setup.examine_changed()
        (problem,) = setup.live.examiner.clusters["uid-of-llama"].problems
        assert (problem,) == tuple(scene.examined().every_problem)
        assert problem.remedy.startswith(remedy)
        assert ("delete" in problem.remedy) == (ago == 60)


def test_what_follows_from_other_replicas_is_seen_when_they_go() -> None:
    scene = job(3)
    setup = Setup(scene.observed())
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    setup.put_cluster(scene.cluster)
    setup.examine_changed()
    setup.drop_pods(scene.pods[f"llama-tpu-0-worker-1-{host}"] for host in range(4))
    setup.examine_changed()
    (problem,) = setup.live.examiner.clusters["uid-of-llama"].problems
    assert (problem.id, problem.replica) == ("slice-left-out", 2)


def test_what_could_not_be_examined_says_only_that_and_is_due_soon() -> None:
    examiner = Setup(Scene().observed(), renamed(Scene(), "other", "qwen")).live.examiner
    assert examiner.fail("uid-of-llama", "ValueError", NOW)
    assert not examiner.fail("uid-of-llama", "ValueError", NOW)
    failed = examiner.clusters["uid-of-llama"]
    assert (failed.name, failed.failure, failed.groups) == ("llama", "ValueError", ())
    assert [each.name for each in examiner.cluster_report(NOW, {}).clusters] == ["qwen", "llama"]
    assert examiner.due(NOW + RESTLESS_SECONDS - 1) == []
    assert examiner.due(NOW + RESTLESS_SECONDS) == ["uid-of-llama"]
    assert examiner.examine("uid-of-llama", NOW)
    assert not examiner.clusters["uid-of-llama"].failure


def test_a_report_of_a_namespace_has_no_problems_of_the_installation() -> None:
    setup = Setup(samples()["second-webhook"].scene().observed(), renamed(Scene(), "other", "qwen"))
    examiner = setup.live.examiner
    assert [each.name for each in examiner.cluster_report(NOW, {}, "other").clusters] == ["qwen"]
    assert examiner.cluster_report(NOW, {}, "other").problems == ()
    assert [each.id for each in examiner.cluster_report(NOW, {}).problems] == ["second-webhook"]


def test_a_namespace_that_the_installation_does_not_select_is_left_alone() -> None:
    scene = samples()["pod-without-identity"].scene()
    setup = Setup(scene.observed())
    assert problems(setup) == ["pod-without-identity"]
    for webhook in scene.webhooks[0]["webhooks"]:
        webhook["namespaceSelector"] = {"matchLabels": {"ray": "yes"}}
    setup.load(scene.observed())
    assert problems(setup) == ["ignored"] == scene.ids()
    (problem,) = scene.examined().every_problem
    assert "mutatingwebhookconfiguration ray-webhook does not select" in problem.message
    scene.namespaces[0]["metadata"]["labels"] = {"ray": "yes"}
    setup.load(scene.observed())
    assert problems(setup) == ["pod-without-identity"] == scene.ids()


def problems(setup: Setup) -> list[str]:
    """Return the ids of all problems, after a look at what has changed."""
    setup.live.examiner.catch_up(setup.now)
    return [each.id for each in setup.live.examiner.cluster_report(setup.now, {}).every_problem]


def test_an_event_is_about_one_raycluster_of_its_namespace() -> None:
    scene = Scene()
    setup = Setup(scene.observed(), renamed(Scene(), "team", "qwen"))
    examiner = setup.live.examiner

    def due(reason: str, name: str, uid: str) -> list[str]:
        setup.load(scene.event(reason, name, 720, uid).observed())
        return examiner.due(NOW)

    gone = due("Killing", "llama-tpu-worker-x7k2p", "uid-of-a-pod-that-is-gone")
    assert gone == due("Killing", "llama-head-x7k2p", "uid-of-its-head") == ["uid-of-llama"]
    assert due("Killing", "llama-tpu-worker-0-2", "uid-of-llama-tpu-worker-0-2") == []
    assert due("Killing", "mistral-head-x7k2p", "uid-of-another-head") == []
    assert due("FailedToCreateWorkerPod", "qwen", "uid-of-team-qwen") == ["uid-of-team-qwen"]


def test_a_pod_that_lives_has_not_ended_though_a_container_of_it_was() -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    for pod, seconds in (("llama-tpu-worker-0-2", 20), ("llama-tpu-worker-0-3", 720)):
        scene.event("Killing", f"llama-tpu-worker-{pod[-1]}", seconds, f"uid-of-{pod}")
    setup = Setup(scene.observed())
    (problem,) = setup.live.examiner.cluster_report(NOW, {}).every_problem
    assert problem.since == NOW - 720
