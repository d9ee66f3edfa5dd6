"""Each example is detected by its own diagnosis, and its command shows what its sentence names."""

import re
from typing import Any, Final

import pytest
from msgspec import structs

from tests.harness.scenes import NOW, Observed, Scene
from tests.pages.markdown import explained
from tests.webhook.diagnostics.samples import diagnosis_of, samples
from webhook.diagnostics.diagnosis import Diagnosis, Problem
from webhook.diagnostics.examination import DIAGNOSES
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.owner_problems import OWNERS, suspended
from webhook.objects.object_cache import ObjectCache

SAMPLES: Final = samples()
OWNED = {diagnosis.id for diagnosis in OWNERS if diagnosis.check is not suspended}
"""The diagnoses of the owner of a RayCluster."""


def test_every_diagnosis_has_an_id_and_an_example_of_its_own() -> None:
    own = [name for name in SAMPLES if diagnosis_of(name) == name]
    assert sorted(own) == sorted(diagnosis.id for diagnosis in DIAGNOSES)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_example_shows_the_diagnosis_alone(name: str) -> None:
    sample = SAMPLES[name]
    assert set(sample.scene().ids()) == {diagnosis_of(name), *sample.also}


def test_no_two_examples_have_the_same_remedy_and_command() -> None:
    shown = [
        (problem.message, problem.remedy, problem.command)
        for name, sample in SAMPLES.items()
        for problem in sample.scene().examined().every_problem
        if problem.id == diagnosis_of(name)
    ]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("name", SAMPLES)
def test_only_errors_end_status_with_1(name: str) -> None:
    cluster_report = SAMPLES[name].scene().examined()
    levels = {problem.level for problem in cluster_report.every_problem}
    assert cluster_report.is_degraded == ("error" in levels)


@pytest.mark.parametrize(
    "diagnosis",
    [diagnosis for diagnosis in DIAGNOSES if diagnosis.seconds],
    ids=lambda diagnosis: diagnosis.id,
)
def test_a_diagnosis_does_not_count_before_its_time(diagnosis: Diagnosis[Any]) -> None:
    scene = SAMPLES[diagnosis.id].scene()
    problem = next(each for each in scene.examined().every_problem if each.id == diagnosis.id)
    begin = NOW - 3600 if problem.since is None else problem.since  # with the pods, an hour ago
    due = begin + diagnosis.seconds
    assert due < NOW
    assert diagnosis.id in scene.ids(due)
    assert diagnosis.id not in scene.ids(due - 1)


@pytest.mark.parametrize("diagnosis", DIAGNOSES, ids=lambda diagnosis: diagnosis.id)
def test_a_problem_says_where_it_is_and_what_to_do(diagnosis: Diagnosis[Any]) -> None:
    for problem in SAMPLES[diagnosis.id].scene().examined().every_problem:
        assert problem.remedy
        assert problem.command.startswith(("kubectl describe ", "kubectl get ", "kubectl logs "))
        assert problem.change is None or problem.level == "error", "none on a warning"
        assert problem.page == f"docs/diagnoses.md#{problem.id}"
        if problem.id != "second-webhook":
            cluster = "" if problem.id == "cluster-not-created" else "llama"
            assert (problem.namespace, problem.cluster) == ("team", cluster)


def test_a_deletion_is_marked_and_says_what_it_takes_with_it() -> None:
    scene = SAMPLES["identity-duplicate"].scene()
    (found,) = scene.examined().every_problem
    assert found.command.startswith("kubectl get pod -n team -o wide llama-tpu-worker-0-2 ")
    assert found.change is not None
    assert found.change.command.startswith("kubectl delete pod -n team llama-tpu-worker-0-2 ")
    assert found.change.does == "deletes 2 pods, and ends what runs in them"


def test_the_second_webhook_is_migrated_from_and_not_deleted() -> None:
    (found,) = SAMPLES["second-webhook"].scene().examined().every_problem
    assert "docs/install.md#migrate-from-googles-tpu-webhook" in found.remedy
    assert found.change is None


@pytest.mark.parametrize("diagnosis", DIAGNOSES, ids=lambda diagnosis: diagnosis.id)
def test_every_diagnosis_has_meaning_harm_and_source(diagnosis: Diagnosis[Any]) -> None:
    what, why, source = explained(diagnosis.check.__doc__ or "")
    assert what.endswith(".")
    assert why.endswith(".")
    assert re.fullmatch(r"https://\S+", source), source


def elsewhere(observed: Observed) -> Observed:
    """Return copies in another namespace, which refer to the uids of the given objects."""

    def copy(value: Any) -> Any:  # noqa: ANN401 - of any kind
        meta = structs.replace(value.metadata, namespace="other", uid=f"{value.metadata.uid}-copy")
        return structs.replace(value, metadata=meta)

    cluster_scoped = {"nodes", "namespaces", "configurations"}
    return Observed(
        **{
            field: [] if field in cluster_scoped else [*map(copy, getattr(observed, field) or ())]
            for field in observed.__struct_fields__
        }
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_objects_of_another_namespace_that_refer_to_uids_change_nothing(name: str) -> None:
    sample, healthy = SAMPLES[name].scene().observed(), Scene().observed()
    for observed, other in ((sample, healthy), (healthy, sample), (sample, sample)):
        alone = observed.examined(NOW)
        object_cache = observed.load(ObjectCache())
        copies = elsewhere(other).load(ObjectCache())
        for field in observed.__struct_fields__:
            for uid, value in getattr(copies, field).items():
                getattr(object_cache, field).put(uid, value)
        both = examine(object_cache, NOW)
        assert [each for each in both.clusters if each.namespace == "team"] == [*alone.clusters]
        assert [each for each in both.problems if each.namespace != "other"] == [*alone.problems]
        (intruder,) = (each for each in both.clusters if each.namespace == "other")
        assert OWNED.isdisjoint(problem.id for problem in intruder.problems)


KINDS: Final = {
    "node": r"(?<!\d )\bnodes?\b(?! pool)", "taint": r"\btolerat|\btaint",
    "claim": r"PersistentVolumeClaim", "device claim": r"ResourceClaim",
    "quota": r"\bquota\b(?! for)", "LimitRange": r"LimitRange", "ServiceAccount": r"ServiceAccount",
    "PriorityClass": r"PriorityClass", "Secret": r"(?i)\bsecret\b",
    "ConfigMap": r"(?i)\bconfigmap\b", "PodGroup": r"PodGroup", "Workload": r"Workload",
    "queue": r"\bqueue\b", "RayJob": r"RayJob", "RayService": r"RayService",
    "namespace": r"\bnamespace\b", "service": r"\bthe service\b",
    "webhook configuration": r"webhookconfiguration",
    "log": r"\blogs? of\b", "event": r"\bevents\b", "finalizer": r"finalizer",
    "variable": r"\b(?:TPU|NODE|MEGASCALE)_[A-Z_]+",
    "host name": r"\bhostname\b", "autoscaler": r"autoscaler of",
}  # fmt: skip
"""The kinds of objects, and the parts of them, that a sentence names."""

POD: Final = {"node", "taint", "claim", "Secret", "ConfigMap", "PriorityClass", "event"}
"""What `kubectl describe pod` shows of a pod."""

SHOWN: Final = {
    r"describe pod ": POD,
    r"get pods? .*-o wide": {"node"},
    r"get pod .*-o yaml": {*POD, "variable", "host name", "finalizer", "ServiceAccount"}
    - {"event"},
    r"describe node |get nodes?\b": {"node"},
    r"describe node |get nodes .*taints": {"taint"},
    r"describe pvc": {"claim", "node"},
    r"describe resourceclaims": {"device claim"},
    r"describe resourcequota": {"quota"},
    r"describe limitrange": {"LimitRange"},
    r"get serviceaccounts": {"ServiceAccount"},
    r"get priorityclasses": {"PriorityClass"},
    r"get secrets|describe secret": {"Secret"},
    r"get configmaps|describe configmap": {"ConfigMap"},
    r"(?:get|describe) podgroups?": {"PodGroup"},
    r"describe workloads": {"Workload", "queue", "quota", "event"},
    r"describe (?:job,)?rayjob": {"RayJob", "event"},
    r"describe rayservice": {"RayService", "event"},
    r"describe raycluster": {"event", "RayJob", "RayService", "queue"},
    r"get raycluster .*-o yaml": {"finalizer", "variable", "queue"},
    r"get raycluster .*--show-labels": {"queue"},
    r"(?:get|describe) namespace": {"namespace"},
    r"get services": {"service"},
    r"webhookconfiguration": {"webhook configuration", "namespace"},
    r"kubectl logs": {"log"},
    r"logs .*-c autoscaler": {"autoscaler"},
    r"ray-webhook check": {"webhook configuration"},
}
"""The kinds in the output of each command."""


def unseen(problem: Problem) -> set[str]:
    """Return the kinds that a problem names, and its command does not show."""
    text = f"{problem.message}; {problem.remedy}"
    named = {kind for kind, pattern in KINDS.items() if re.search(pattern, text)}
    shown = (kinds for part, kinds in SHOWN.items() if re.search(part, problem.command))
    return named.difference(*shown)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_command_shows_every_kind_that_its_sentence_names(name: str) -> None:
    for problem in SAMPLES[name].scene().examined().every_problem:
        assert not unseen(problem), f"{problem.message}; {problem.remedy}; {problem.command}"
