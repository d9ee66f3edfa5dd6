"""Which pods are managed, ignored or decoded in a thread, and the state after a review."""

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.builders import (
    NAMESPACE,
    ClusterBuilder,
    Decided,
    Object,
    PodBuilder,
    Undecided,
    Webhook,
    a_cluster,
    a_pod,
    decide,
    uid_of,
)
from tests.harness.apiserver import pod_review
from tests.webhook.cli.test_hostile_texts import HOSTILE, NEVER
from webhook.admission.reviewer import LARGE, Mutation
from webhook.api import names
from webhook.api.review import ALLOWED
from webhook.groups.required_reads import ReadCluster

CLUSTER = a_cluster("c").group("g", hosts=2)


def place(decided: Decided) -> tuple[str, str]:
    labels = decided.pod["metadata"]["labels"]
    return labels[names.LABEL_REPLICA_INDEX], labels[names.LABEL_HOST_INDEX]


@pytest.mark.parametrize(("dry_runs", "places"), [
    ([False] * 3, ["00", "01", "10"]), ([True, True, False, True], ["00", "00", "00", "01"]),
])  # fmt: skip
def test_only_pods_of_no_dry_run_take_identities(dry_runs: list[bool], places: list[str]) -> None:
    webhook, pod = Webhook(CLUSTER.build()), a_pod().worker("g").of("c").build()
    assert ["".join(place(webhook.admit(pod, dry_run=dry))) for dry in dry_runs] == places


def test_a_denial_has_no_control_characters_of_other_objects() -> None:
    mutation = Mutation(Webhook(a_cluster("c").group(HOSTILE).build()).handler)
    pod = a_pod().worker("other").of("c").build()
    outcome = asyncio.run(mutation.review(json.dumps(pod_review(pod)).encode()))
    status = json.loads(outcome.body)["response"]["status"]
    texts = [status["message"], *(cause["message"] for cause in status["details"]["causes"])]
    for text in texts:
        assert "add-mask" in text
        assert not [character for character in NEVER if character in text]


def test_a_refused_pod_takes_no_identity_and_a_carried_one_is_taken() -> None:
    webhook, pod = Webhook(CLUSTER.build()), a_pod().worker("g").of("c").build()
    assert not webhook.admit(a_pod().worker("g").of("c").tpu("0.5").build()).answer.allowed
    webhook.admit(a_pod().worker("g").of("c").identity(0, 1, "g-xh3hf").build())
    assert [place(webhook.admit(pod)) for _ in range(2)] == [("0", "0"), ("1", "0")]


@pytest.mark.parametrize("node_type", ["head", "redis-cleanup", "", "Worker"])
def test_a_pod_that_is_no_worker_passes_untouched(node_type: str) -> None:
    pod = a_pod().worker("g").of("c").tpu(4).orphan().label(names.LABEL_NODE_TYPE, node_type)
    assert decide(pod, CLUSTER).answer == ALLOWED


def test_a_worker_of_a_cluster_that_is_too_large_to_be_read_is_refused_with_its_size() -> None:
    webhook = Webhook(a_cluster("c").build() | {"unread_bytes": 400_000})
    refused = webhook.admit(a_pod().worker("g").of("c").build()).answer
    assert "RayCluster c has 390 KiB, above the maximum of 384 KiB" in refused.causes[0].message


def test_a_worker_of_an_ignored_cluster_passes_untouched() -> None:
    ignored = a_cluster("c").group("g", hosts=2).label(names.LABEL_IGNORE, "true")
    assert decide(a_pod().worker("g").of("c").tpu(4), ignored).answer == ALLOWED


@pytest.mark.parametrize("cluster", [
    a_cluster("other").group("g"), a_cluster("c").group("g"),
], ids=["other name", "other uid"])  # fmt: skip
def test_a_worker_of_an_unknown_ray_cluster_is_not_decided(cluster: ClusterBuilder) -> None:
    pod = a_pod().worker("g").of("c").build()
    pod["metadata"]["ownerReferences"][0]["uid"] = f"older-than-{uid_of('c')}"
    with pytest.raises(Undecided) as caught:
        Webhook(cluster.build()).admit(pod)
    assert caught.value.read == ReadCluster(NAMESPACE, "c", f"older-than-{uid_of('c')}")


OWNER, CONTAINERS = "metadata.ownerReferences", "spec.containers"
AT_GROUP = f"metadata.labels[{names.LABEL_GROUP}]"


@pytest.mark.parametrize(("pod", "fields"), [
    (a_pod().worker("g").of("c").orphan(), [OWNER]), (a_pod().of("c"), [AT_GROUP]),
    (a_pod().worker("g").of("c").spec(containers=[]), [CONTAINERS]),
    (a_pod().worker("x").of("c"), [AT_GROUP]),
    (a_pod().of("c").orphan().spec(containers=None), [AT_GROUP, OWNER, CONTAINERS]),
], ids=["no owner", "no group", "no containers", "another group", "nothing"])  # fmt: skip
def test_a_worker_without_place_is_refused_with_fields(pod: PodBuilder, fields: list[str]) -> None:
    assert decide(pod, CLUSTER).fields == fields


def test_a_worker_without_its_cluster_as_owner_and_label_is_refused() -> None:
    foreign, unlabelled = (a_pod().worker("g").of("c").build() for _ in range(2))
    foreign["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    del unlabelled["metadata"]["labels"][names.LABEL_CLUSTER]
    fields = [
        [cause.field for cause in Webhook(CLUSTER.build()).admit(pod).answer.causes]
        for pod in (foreign, unlabelled)
    ]
    assert fields == [["metadata.ownerReferences"], [f"metadata.labels[{names.LABEL_CLUSTER}]"]]


@pytest.mark.parametrize("label", [names.LABEL_CLUSTER, names.LABEL_GROUP, *names.IDENTITY_LABELS])
def test_a_denial_repeats_both_ends_of_a_long_label(label: str) -> None:
    long = f"first-{'x' * 5000}-last"
    pod = a_pod().worker("g").of("c").tpu("4")
    if label in names.IDENTITY_LABELS:
        pod = pod.identity(0, 0, "g-xh3hf")
    built = pod.build()
    built["metadata"]["labels"][label] = long
    (cause,) = Webhook(CLUSTER.build()).admit(built).answer.causes
    assert cause.field == f"metadata.labels[{label}]"
    assert len(cause.message) < 200
    assert "'first-" in cause.message
    assert "-last'" in cause.message


def test_a_deleted_pod_gives_its_identity_back_unless_it_was_a_dry_run() -> None:
    webhook = Webhook(CLUSTER.build())
    pod = webhook.admit(a_pod().worker("g").of("c").build()).pod
    for dry_run, then in ((True, ("0", "1")), (False, ("0", "0"))):
        assert webhook.review(deletion(pod, dry_run=dry_run)) == ALLOWED
        assert place(webhook.admit(a_pod().worker("g").of("c").build(), dry_run=True)) == then


def deletion(pod: Object, *, dry_run: bool) -> Object:
    review = pod_review(pod, operation="DELETE", dry_run=dry_run)
    review["request"] |= {"object": None, "oldObject": pod}
    return review


@pytest.mark.parametrize("operation", ["UPDATE", "CONNECT"])
def test_other_operations_pass(operation: str) -> None:
    webhook = Webhook(CLUSTER.build())
    review = pod_review(a_pod().worker("g").of("c").tpu(4).build(), operation=operation)
    assert webhook.review(review) == ALLOWED


GANG = a_cluster("c").annotated("admission.ray.io/scheduling-group", "cluster").group("g", hosts=2)


class Service:
    """A service of one RayCluster, without a wire; `calls` are those of the thread."""

    def __init__(self) -> None:
        self.calls = 0
        handler = Webhook(GANG.build()).handler
        self._mutation = Mutation(handler, in_thread=self._in_thread)  # type: ignore[arg-type]

    async def _in_thread(
        self, _: str, body: bytes, function: Callable[..., object], *arguments: object
    ) -> object:
        self.calls += 1
        return function(body, *arguments)

    def review(self, pod: PodBuilder, uid: str, *, large: bool, dry_run: bool = False) -> bytes:
        """Return the answer to a review, whose body is made larger by something unknown."""
        padding = {"padding": "x" * LARGE} if large else {}
        body = json.dumps(pod_review(pod.build(), uid=uid, dry_run=dry_run) | padding).encode()
        return asyncio.run(self._mutation.review(body)).body


def crowded(containers: int) -> PodBuilder:
    pod = a_pod().worker("g").of("c")
    for number in range(containers - 1):
        pod.container(f"c{number}")
    return pod


PODS = {
    "labels": lambda: a_pod().worker("g").of("c").identity(0, 1, "g-xh3hf").tpu(4),
    "no labels": lambda: a_pod().worker("g").of("c").tpu(4),
    "denied": lambda: a_pod().worker("g").of("c").tpu("0.5"),
    "head": lambda: a_pod().head().of("c"),
    "as many containers as can have variables": lambda: crowded(500),
    "more containers": lambda: crowded(501),
}


@pytest.mark.parametrize("name", PODS)
@pytest.mark.parametrize("dry_run", [False, True])
def test_large_and_small_pods_get_the_same_answers(name: str, dry_run: bool) -> None:
    one, other = Service(), Service()
    for number in range(3):  # each takes an identity from the next
        uid = f"review-{number}"
        small = one.review(PODS[name](), uid, large=False, dry_run=dry_run)
        assert other.review(PODS[name](), uid, large=True, dry_run=dry_run) == small
    plain = PODS["no labels"]()
    assert other.review(plain, "last", large=False) == one.review(plain, "last", large=False)


def test_a_large_pod_is_decoded_beside_the_event_loop() -> None:
    service = Service()
    for large in (True, False):
        service.review(PODS["labels"](), "review", large=large)
        assert service.calls == 1


def test_a_large_pod_with_too_many_containers_is_denied_before_their_variables_are_read() -> None:
    pod = crowded(501).spec(initContainers=[{"name": "init", "env": "no list"}])
    for large, problem in ((True, b"[variables-too-large]"), (False, b"not a list of variables")):
        assert problem in Service().review(pod, "review", large=large)
