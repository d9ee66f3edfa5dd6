"""Resizes in place: no warning within the maxima; above them the warning names both numbers."""

import asyncio
import json

import pytest

from tests.apiserver import Object, pod_review
from tests.builders import (
    ClusterBuilder,
    a_cluster,
    a_pod,
    facts,
)
from webhook.admission.codec import WARNING_MAX
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import Outcome, Validation
from webhook.admission.subresource_handlers import RULE, Enforcement, ResizeHandler
from webhook.api import names
from webhook.api.review import BadReview
from webhook.groups.group_config import ClusterIndex

RESOURCES = "spec.containers[0].resources"
IPPR = {
    "groups": {
        "workers": {"max-cpu": "8", "max-memory": "16Gi", "resize-timeout": 60},
        "headgroup": {"max-cpu": 2, "max-memory": "4Gi", "resize-timeout": 60},
    }
}
CLUSTER = (
    a_cluster("x")
    .group("workers")
    .group("others")
    .annotated(names.ANNOTATION_IPPR, json.dumps(IPPR))
)


def a_worker(group: str = "workers", node_type: str = "worker", **amounts: str | float) -> Object:
    """Return a Ray pod whose first container has these limits, and requests for half a core and
    1Gi.
    """
    built = a_pod().worker(group).of("x").label(names.LABEL_NODE_TYPE, node_type)
    for resource, amount in amounts.items():
        built.resource(resource, amount)
    return built.resource("cpu", "500m", "requests").resource("memory", "1Gi", "requests").build()


OLD = a_worker(cpu=4, memory="8Gi")


def resized(
    new: object,
    old: object = OLD,
    *,
    enforcement: Enforcement = "deny",
    cluster: ClusterBuilder = CLUSTER,
    **request: object,
) -> Outcome:
    clusters = ClusterIndex()
    clusters.put(facts(cluster))
    review = pod_review(OLD, operation="UPDATE")
    review["request"] |= {
        "object": new,
        "oldObject": old,
        "subResource": "resize",
        "name": "x-worker-1",
        **request,
    }
    reviewer = Validation(RayHandler(), ResizeHandler(clusters, enforcement))
    return asyncio.run(reviewer.review(json.dumps(review).encode()))


def fields(outcome: Outcome) -> list[str]:
    return [cause.field for cause in outcome.answer.causes]


def test_a_resize_beyond_a_maximum_is_refused_with_both_numbers() -> None:
    outcome = resized(a_worker(cpu=12, memory="8Gi"))
    (cause,) = outcome.answer.causes
    assert (cause.reason, cause.field) == ("FieldValueInvalid", f"{RESOURCES}.limits.cpu")
    assert (
        cause.message == "cpu 12 is above max-cpu 8 of group workers (ray.io/ippr of RayCluster x)"
    )
    assert outcome.answer.rules == (RULE,)
    status = json.loads(outcome.body)["response"]["status"]
    assert (status["reason"], status["code"]) == ("Invalid", 422)


def test_a_proxy_in_front_of_ray_may_grow_and_ray_behind_it_may_not() -> None:
    old, new, grown = (a_worker(cpu=cpu) for cpu in (4, 4, 12))
    for pod, cpu in ((old, "1"), (new, "12"), (grown, "1")):
        ray = pod["spec"]["containers"][0]
        ray["env"] = [{"name": names.RAY_START_COMMAND, "value": "ray start"}]
        proxy = {"name": "proxy", "resources": {"limits": {"cpu": cpu}}}
        pod["spec"]["containers"] = [proxy, ray]
    assert fields(resized(new, old)) == []
    assert fields(resized(grown, old)) == ["spec.containers[1].resources.limits.cpu"]


def test_every_amount_that_is_beyond_its_maximum_is_named() -> None:
    new = a_worker(cpu="8001m", memory="17Gi")
    new["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "9", "memory": "17Gi"}
    assert sorted(fields(resized(new))) == [
        f"{RESOURCES}.{kind}.{resource}"
        for kind in ("limits", "requests")
        for resource in ("cpu", "memory")
    ]


def test_a_setting_makes_it_a_warning_or_nothing() -> None:
    new = a_worker(cpu=12, memory="8Gi")
    answer = resized(new, enforcement="warn").answer
    assert answer.allowed
    (warning,) = answer.warnings
    assert "12" in warning
    assert "8" in warning
    assert resized(new, enforcement="off").answer.warnings == ()
    assert resized(new, enforcement="off").answer.allowed


def test_a_warning_is_short_however_long_the_names_are() -> None:
    outcome = resized(a_worker(cpu=12), enforcement="warn")
    (warning,) = json.loads(outcome.body)["response"]["warnings"]
    assert len(warning) <= WARNING_MAX


@pytest.mark.parametrize(
    "new",
    [
        a_worker(cpu=8, memory="16Gi"),
        a_worker(cpu="8000m", memory=16 * 2**30),
        a_worker(cpu=4.5, memory="9Gi"),
        a_worker(),
    ],
)
def test_a_resize_within_the_maxima_passes_without_a_word(new: Object) -> None:
    assert json.loads(resized(new).body)["response"].keys() == {"uid", "allowed"}


def test_what_was_beyond_before_may_shrink_and_stay() -> None:
    huge = a_worker(cpu=32, memory="64Gi")
    assert fields(resized(a_worker(cpu=16, memory="64Gi"), huge)) == []
    assert fields(resized(a_worker(cpu=33, memory="64Gi"), huge)) == [f"{RESOURCES}.limits.cpu"]


def test_the_head_is_resized_by_the_name_of_its_group() -> None:
    assert fields(
        resized(a_worker("headgroup", "head", cpu=4), a_worker("headgroup", "head", cpu=1))
    ) == [f"{RESOURCES}.limits.cpu"]
    assert (
        fields(resized(a_worker("headgroup", "head", cpu=2), a_worker("headgroup", "head", cpu=1)))
        == []
    )


@pytest.mark.parametrize(
    ("new", "cluster"),
    [
        (a_worker("others", cpu=99), CLUSTER),
        (a_worker(cpu=99), a_cluster("x").group("workers")),
        (
            a_worker(cpu=99),
            a_cluster("y").group("workers").annotated(names.ANNOTATION_IPPR, json.dumps(IPPR)),
        ),
        (a_worker(cpu=99), a_cluster("x").group("workers").annotated(names.ANNOTATION_IPPR, "{")),
        (a_worker("workers", "redis-cleanup", cpu=99), CLUSTER),
        (a_pod().worker("workers").of("x").orphan().resource("cpu", 99).build(), CLUSTER),
        (
            a_pod().worker("workers").of("x").container("sidecar").resource("cpu", 99).build(),
            CLUSTER,
        ),
        (a_pod().worker("workers").of("x").gpu(99).build(), CLUSTER),
        (a_worker(cpu="many"), CLUSTER),
        (a_worker(cpu="-99"), CLUSTER),
    ],
    ids=[
        "unlisted",
        "no annotation",
        "unknown",
        "unreadable",
        "no Ray node",
        "no owner",
        "sidecar",
        "gpu",
        "no amount",
        "negative",
    ],
)
def test_what_has_no_maximum_passes(new: Object, cluster: ClusterBuilder) -> None:
    assert json.loads(resized(new, cluster=cluster).body)["response"].keys() == {"uid", "allowed"}


def test_a_pod_of_an_older_cluster_of_that_name_and_one_that_is_ignored_pass() -> None:
    new = a_worker(cpu=99)
    new["metadata"]["ownerReferences"][0]["uid"] = "older"
    assert resized(new).answer.allowed
    ignored = a_cluster("x").group("workers").annotated(names.ANNOTATION_IPPR, json.dumps(IPPR))
    assert resized(
        a_worker(cpu=99), cluster=ignored.labelled(names.LABEL_IGNORE, "true")
    ).answer.allowed


@pytest.mark.parametrize(
    "request_fields", [{"subResource": "status"}, {"subResource": None}, {"operation": "CREATE"}]
)
def test_other_reviews_of_pods_pass(request_fields: Object) -> None:
    assert resized(a_worker(cpu=99), **request_fields).answer.allowed


def test_without_the_old_pod_every_amount_counts_as_growing() -> None:
    assert fields(resized(a_worker(cpu=12), None)) == [f"{RESOURCES}.limits.cpu"]


@pytest.mark.parametrize(
    "new",
    [
        None,
        [],
        "pod",
        {"spec": []},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}},
    ],
)
def test_a_malformed_pod_is_a_bad_review(new: object) -> None:
    with pytest.raises(BadReview):
        resized(new)
