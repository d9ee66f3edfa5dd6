"""A pod receives the PodGroup of its RayCluster only if the preconditions are met."""

import pytest

from tests.builders import ClusterBuilder, Decided, PodBuilder, Webhook, a_cluster, a_pod, decide
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
    """Return host 0 of replica g-xh3hf."""
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


def test_who_asks_for_nothing_gets_nothing() -> None:
    decided = decide(a_host(), a_cluster("c").group("g", hosts=2))
    assert group_of(decided) is None
    assert not decided.answer.warnings


@pytest.mark.parametrize("cluster", [
    asking("cluster").labelled(names.LABEL_GANG, "true"),
    asking("replica").labelled(names.LABEL_GANG, "true"),
    asking("replica").labelled("volcano.sh/queue-name", "team"),
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
    cluster = asking("worker-group").labelled(names.LABEL_GANG, "true")
    for pod in (a_head(), a_host()):
        decided = decide(pod.spec(schedulingGroup={"podGroupName": "c-cluster"}), cluster)
        assert group_of(decided) == "c-cluster"
        assert not decided.answer.warnings


def test_replicas_are_grouped_while_autoscaling() -> None:
    assert (
        group_of(decide(a_host(), asking("replica").spec(enableInTreeAutoscaling=True)))
        == "c-worker-g-xh3hf"
    )


def test_a_pod_with_eviction_responders_is_not_grouped_as_kubernetes_forbids_both() -> None:
    decided = decide(a_host().spec(evictionResponders=RESPONDERS), asking("worker-group"))
    assert group_of(decided) is None
    (warning,) = decided.answer.warnings
    assert "evictionResponders" in warning


def test_a_pod_of_another_scheduler_is_not_grouped() -> None:
    decided = decide(a_host().spec(schedulerName="volcano"), asking("worker-group"))
    assert group_of(decided) is None
    assert "volcano" in decided.answer.warnings[0]


def test_without_pod_groups_in_the_api_a_warning_says_so_and_nothing_else_is_lost() -> None:
    decided = decide(a_host(), asking("worker-group"), Policy(pod_groups=False))
    assert group_of(decided) is None
    assert "serves no PodGroups" in decided.answer.warnings[0]
    assert decided.pod["spec"]["hostname"] == "g-0-0"


def test_without_a_publisher_a_warning_names_the_pod_group_to_create() -> None:
    decided = decide(a_host(), asking("worker-group"), Policy(published=False))
    assert group_of(decided) == "c-worker-g"
    assert "c-worker-g" in decided.answer.warnings[0]


def test_the_policy_may_change_while_pods_of_a_replica_come() -> None:
    webhook = Webhook(asking("worker-group").build(), policy=Policy(pod_groups=False))
    before = webhook.admit(a_pod().of("c").worker("g").build())
    webhook.handler.policy = Policy(pod_groups=True)
    after = webhook.admit(a_pod().of("c").worker("g").build())
    assert (group_of(before), group_of(after)) == (None, "c-worker-g")


def test_a_head_without_an_owner_or_of_an_ignored_cluster_passes_untouched() -> None:
    assert decide(a_head().orphan(), asking("cluster")).patch == []
    assert decide(a_head(), asking("cluster").labelled(names.LABEL_IGNORE, "true")).patch == []


def test_a_head_holds_no_identity() -> None:
    webhook = Webhook(a_cluster("c").group("headgroup").annotated(ASK, "cluster").build())
    webhook.admit(a_head().build())
    worker = webhook.admit(a_pod().of("c").worker("headgroup").build())
    assert worker.pod["metadata"]["labels"][names.LABEL_REPLICA_INDEX] == "0"
