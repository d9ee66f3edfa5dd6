"""A pod receives the PodGroup of its RayCluster only if the preconditions are met."""

import pytest

from tests.builders import (
    ClusterBuilder,
    Decided,
    Object,
    PodBuilder,
    Webhook,
    a_cluster,
    a_pod,
    decide,
)
from webhook.admission.codec import WARNING_MAX
from webhook.api import names
from webhook.mutation.ray_pod import Policy

ASK = names.ANNOTATION_SCHEDULING_GROUP
RESPONDERS = [{"name": "drain.example.com"}]


def asking(granularity: str) -> ClusterBuilder:
    """Return a RayCluster with groups of two hosts and single hosts, that asks for a gang."""
    return (
        a_cluster("c").group("g", hosts=2, replicas=2).group("single").annotated(ASK, granularity)
    )


def a_host() -> PodBuilder:
    return a_pod().of("c").worker("g").identity(0, 0, "g-xh3hf")


def a_head() -> PodBuilder:
    return a_pod().of("c").head()


def group_of(decided: Decided) -> str | None:
    found: str | None = decided.pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return found


@pytest.mark.parametrize(("granularity", "head", "host", "single"), [
    ("cluster", "c-all", "c-all", "c-all"),
    ("worker-group", "c-head", "c-worker-g", "c-worker-single"),
    ("replica", None, "c-worker-g-xh3hf", None),
])  # fmt: skip
def test_each_granularity_names_its_pod_groups(
    granularity: str, head: str | None, host: str, single: str | None
) -> None:
    cluster = asking(granularity)
    pods = a_head(), a_host(), a_pod().of("c").worker("single")
    assert [group_of(decide(pod, cluster)) for pod in pods] == [head, host, single]


def test_hosts_of_an_assigned_replica_share_a_pod_group_that_no_other_replica_has() -> None:
    webhook = Webhook(asking("replica").build())
    found = [group_of(webhook.admit(a_pod().of("c").worker("g").build())) for _ in range(4)]
    assert found[0] == found[1] != found[2] == found[3]
    assert None not in found


DEFAULT, NOT_SERVED, UNPUBLISHED = Policy(), Policy(pod_groups=False), Policy(published=False)


@pytest.mark.parametrize(("spec", "cluster", "policy", "group", "warning"), [
    ({}, a_cluster("c").group("g", hosts=2), DEFAULT, None, ""),
    ({}, asking("replica").spec(enableInTreeAutoscaling=True), DEFAULT, "c-worker-g-xh3hf", ""),
    ({"evictionResponders": RESPONDERS}, asking("worker-group"), DEFAULT, None,
     "evictionResponders"),
    ({"schedulerName": "volcano"}, asking("worker-group"), DEFAULT, None, "volcano"),
    ({}, asking("worker-group"), NOT_SERVED, None, "serves no PodGroups"),
    ({}, asking("worker-group"), UNPUBLISHED, "c-worker-g", "c-worker-g"),
], ids=["not asked", "autoscaled", "responders", "scheduler", "unserved", "alone"])  # fmt: skip
def test_a_host_has_its_pod_group_or_a_warning_and_all_else(
    spec: Object, cluster: ClusterBuilder, policy: Policy, group: str | None, warning: str
) -> None:
    decided = decide(a_host().spec(**spec), cluster, policy)
    assert (group_of(decided), decided.pod["spec"]["hostname"]) == (group, "g-0-0")
    assert [warning in text for text in decided.answer.warnings] == [True] * bool(warning)


@pytest.mark.parametrize("cluster", [
    asking("cluster").label(names.LABEL_GANG, "true"),
    asking("replica").label(names.LABEL_GANG, "true"),
    asking("replica").label("volcano.sh/queue-name", "team"),
    asking("cluster").spec(enableInTreeAutoscaling=True),
    asking("everything"),
    asking("replica").head(evictionResponders=RESPONDERS),
])  # fmt: skip
def test_a_cluster_without_its_gang_has_pods_that_say_why(cluster: ClusterBuilder) -> None:
    for pod in (a_head(), a_host()):
        decided = decide(pod, cluster)
        assert group_of(decided) is None
        (warning,) = decided.answer.warnings
        assert warning.startswith("no scheduling group: ")
        assert len(warning) <= WARNING_MAX


def test_pods_that_kuberay_put_into_its_own_gang_stay_there_without_a_word() -> None:
    cluster = asking("worker-group").label(names.LABEL_GANG, "true")
    for pod in (a_head(), a_host()):
        decided = decide(pod.spec(schedulingGroup={"podGroupName": "c-cluster"}), cluster)
        assert group_of(decided) == "c-cluster"
        assert not decided.answer.warnings


def test_the_policy_may_change_while_pods_of_a_replica_come() -> None:
    webhook = Webhook(asking("worker-group").build(), policy=Policy(pod_groups=False))
    before = webhook.admit(a_pod().of("c").worker("g").build())
    webhook.handler.policy = Policy(pod_groups=True)
    after = webhook.admit(a_pod().of("c").worker("g").build())
    assert (group_of(before), group_of(after)) == (None, "c-worker-g")


def test_a_head_without_an_owner_or_of_an_ignored_cluster_passes_untouched() -> None:
    assert decide(a_head().orphan(), asking("cluster")).patch == []
    assert decide(a_head(), asking("cluster").label(names.LABEL_IGNORE, "true")).patch == []


def test_a_head_holds_no_identity() -> None:
    webhook = Webhook(a_cluster("c").group("headgroup").annotated(ASK, "cluster").build())
    webhook.admit(a_head().build())
    worker = webhook.admit(a_pod().of("c").worker("headgroup").build())
    assert worker.pod["metadata"]["labels"][names.LABEL_REPLICA_INDEX] == "0"
