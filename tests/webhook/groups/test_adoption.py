"""Pods of Google's webhook for TPUs keep the identity that it assigned: in the watch, in files, in
`status`, and at admission while both webhooks are registered.
"""

import json
from collections.abc import Callable, Iterable

import msgspec
import pytest

from tests.builders import (
    NAMESPACE,
    Object,
    PodBuilder,
    Webhook,
    a_cluster,
    a_pod,
    env_of,
    manifest,
    uid_of,
)
from tests.harness import google_webhook
from webhook.api import names
from webhook.api.objects import PodSpec
from webhook.api.review import Denied
from webhook.cache.informer import decode_event
from webhook.cache.serve_stores import CODEC, PodStore
from webhook.diagnostics.assigned_pods import assign
from webhook.groups.google_labels import read_legacy_identity
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import identity_of
from webhook.manifest.standalone import load_state
from webhook.objects.live_objects import LiveCluster, LivePod
from webhook.objects.object_cache import ObjectCache

KEY = GroupKey(NAMESPACE, uid_of("c"), "g")
HOSTS = 4


def a_worker(topology: str, accelerator: str, *chips: int) -> PodBuilder:
    """Return a worker with containers that ask for so many chips each."""
    pod = a_pod().of("c").worker("g").topology(topology, accelerator)
    first, *rest = chips
    pod = pod.tpu(first) if first else pod
    for number, each in enumerate(rest):
        pod = pod.container(f"more-{number}")
        pod = pod.tpu(each) if each else pod
    return pod


SHAPES: dict[str, tuple[PodBuilder, int]] = {
    "v4": (a_worker("2x2x4", "tpu-v4-podslice", 4), 4),
    "v6e, a single host": (a_worker("2x4", "tpu-v6e-slice", 8), 1),
    "v7x": (a_worker("2x2x4", "tpu7x", 4), 4),
    "v7x, two processes": (a_worker("2x2x4", "tpu7x", 2, 2), 4),
    "v7x, four processes": (a_worker("2x2x4", "tpu7x", 1, 1, 1, 1), 4),
    "v4, two containers": (a_worker("2x2x4", "tpu-v4-podslice", 2, 2), 4),
    "v7x, behind a sidecar": (a_worker("2x2x4", "tpu7x", 0, 2, 2), 4),
    "v7x, behind a container with none": (a_pod().of("c").worker("g").topology("2x2x4",
     "tpu7x").tpu(0).env("TPU_WORKER_ID", "0").container("more").tpu(4), 4),
    "v5p, with a placeholder": (a_worker("2x2x4", "tpu-v5p-slice", 4).env("TPU_WORKER_ID", "0"), 4),
    "v7x, with placeholders": (a_pod().of("c").worker("g").topology("2x2x4",
     "tpu7x").tpu(2).env("TPU_WORKER_ID", "0").container("more").tpu(2).env("TPU_WORKER_ID", "1"),
     4),
}  # fmt: skip


def made(template: PodBuilder, number: int) -> list[Object]:
    pods: list[Object] = []
    for each in range(number):
        pod = google_webhook.admitted(template.build(), pods)
        pod["metadata"] |= {"name": f"pod-{each}", "uid": f"uid-{each}", "resourceVersion": "7"}
        pods.append(pod)
    return pods


See = Callable[[Object], HostIdentity | None]


def identities(pods: Iterable[Object], see: See) -> list[tuple[int, int]]:
    found = [see(pod) for pod in pods]
    return [(identity.replica, identity.host) for identity in found if identity is not None]


def live(pod: Object) -> LivePod:
    return msgspec.json.decode(msgspec.json.encode(pod), type=LivePod)


def identity_in(members: Membership, uid: str) -> HostIdentity | None:
    found = members.get(uid)
    return found.identity if found is not None and found.key == KEY else None


def by_watch(pod: Object) -> HostIdentity | None:
    members = Membership()
    found = decode_event(CODEC, json.dumps({"type": "ADDED", "object": pod}).encode()).object
    PodStore(members).put(found)  # type: ignore[arg-type] # it can be decoded
    return identity_in(members, pod["metadata"].get("uid", ""))


def by_status(pod: Object, hosts: int) -> HostIdentity | None:
    document = a_cluster("c").group("g", hosts=hosts).build()
    cluster = msgspec.json.decode(msgspec.json.encode(document), type=LiveCluster)
    objects = ObjectCache()
    objects.pods.load([live(pod)])
    (group,) = assign(cluster, objects, 0.0).groups
    found = [
        HostIdentity(each.index, host, each.name) for each in group.replicas for host in each.pods
    ]
    return found[0] if found else None


def by_file(pod: Object, hosts: int) -> HostIdentity | None:
    cluster = a_cluster("c").group("g", hosts=hosts).build()
    state = load_state([manifest(cluster), manifest(pod)])
    return identity_in(state.members, pod["metadata"]["uid"])


def by_admission(pod: Object, hosts: int) -> HostIdentity | None:
    view = live(pod)
    return identity_of("g", view.labels, lambda: view.spec, hosts, hosts)


def a_live_pod(worker: str = "", **labels: str) -> Object:
    """Return a pod of a TPU slice that has these labels, and `TPU_WORKER_ID`."""
    pod = a_worker("2x2x4", "tpu-v4-podslice", 4)
    built = (pod.env(names.TPU_WORKER_ID, worker) if worker else pod).build()
    built["metadata"]["labels"] |= labels
    built["metadata"] |= {"name": "pod", "uid": "uid", "resourceVersion": "7"}
    return built


def labelled(host: str) -> dict[str, str]:
    return dict(zip(names.IDENTITY_LABELS, ("3", "g-abcde", host), strict=True))


def test_a_replica_of_a_single_host_has_no_name_but_to_the_watch_which_knows_no_group() -> None:
    pod = a_live_pod("0", replicaIndex="g-3")
    nameless = HostIdentity(3, 0, "")
    assert by_status(pod, 1) == by_file(pod, 1) == by_admission(pod, 1) == nameless
    assert by_watch(pod) == HostIdentity(3, 0, "g-3")


@pytest.mark.parametrize(("pod", "identity"), [
    (a_live_pod("5", replicaIndex="g-3"), HostIdentity(3, 5, "g-3")),
    (a_live_pod(**labelled("6")), HostIdentity(3, 6, "g-abcde")),
], ids=["by the webhook of Google", "by its labels"])  # fmt: skip
def test_a_pod_beyond_fewer_hosts_keeps_its_identity(pod: Object, identity: HostIdentity) -> None:
    for hosts in (1, HOSTS):
        assert by_watch(pod) == by_status(pod, hosts) == by_file(pod, hosts) == identity


def test_a_pod_that_is_created_has_to_be_within_the_hosts_of_its_group() -> None:
    assert by_admission(a_live_pod("5", replicaIndex="g-3"), HOSTS) is None
    with pytest.raises(Denied, match="out of range"):
        by_admission(a_live_pod(**labelled("6")), HOSTS)


def test_an_index_alone_is_an_identity_or_part_of_one_by_its_group() -> None:
    pod = a_live_pod(**{names.LABEL_REPLICA_INDEX: "3"})
    assert by_watch(pod) == by_status(pod, 1) == HostIdentity(3, 0, "")
    assert by_status(pod, HOSTS) is None
    with pytest.raises(Denied, match="only a part"):
        by_admission(pod, HOSTS)


@pytest.mark.parametrize(("template", "hosts"), SHAPES.values(), ids=SHAPES)
def test_a_pod_of_both_webhooks_has_one_set_of_names(template: PodBuilder, hosts: int) -> None:
    webhook = Webhook(a_cluster("c").group("g", hosts=hosts, replicas=2).build())
    admitted = [webhook.admit(pod) for pod in made(template, 2 * hosts)]
    for number, decided in enumerate(admitted):
        assert decided.answer.allowed
        assert not decided.answer.warnings
        labels, replica, host = decided.pod["metadata"]["labels"], number // hosts, number % hosts
        assert labels[names.LABEL_REPLICA_INDEX] == str(replica)
        assert labels.get(names.LABEL_HOST_INDEX, "0") == str(host)
        assert labels.get(names.LABEL_REPLICA_NAME, f"g-{replica}") == f"g-{replica}"
        seen = by_watch(decided.pod)
        assert seen is not None
        assert (seen.replica, seen.host) == (replica, host)
        if hosts > 1:
            assert decided.pod["spec"]["hostname"] == f"g-{replica}-{host}"
        assert google_webhook.host_of(decided.pod) == host


@pytest.mark.parametrize(("template", "hosts"), SHAPES.values(), ids=SHAPES)
def test_identities_stay_and_hosts_and_replicas_are_added(template: PodBuilder, hosts: int) -> None:
    pods = made(template, 2 * hosts)
    given = [(number // hosts, number % hosts) for number in range(2 * hosts)]
    assert identities(pods, by_watch) == given
    assert identities(pods, lambda pod: by_status(pod, hosts)) == given
    assert identities(pods, lambda pod: by_file(pod, hosts)) == given
    gone = pods.pop(1 if hosts > 1 else 0)
    cluster = a_cluster("c").group("g", hosts=hosts, replicas=3)
    webhook = Webhook(cluster.build(), *pods)
    new = [webhook.admit(template.build()).pod for _ in range(1 + hosts)]
    replaced, *added = new
    assert identities([replaced], by_watch) == identities([gone], by_watch)
    ids = [env_of(pod, _process(gone))[names.TPU_WORKER_ID] for pod in (replaced, gone)]
    assert ids[0] == ids[1]
    assert identities(added, by_watch) == [(2, host) for host in range(hosts)]
    held = [by_watch(pod) for pod in [*pods, *_named(new)]]
    assert len(set(held)) == len(held) == 3 * hosts


def _named(pods: list[Object]) -> list[Object]:
    return [
        {**pod, "metadata": {**pod["metadata"], "uid": f"new-{number}", "resourceVersion": "9"}}
        for number, pod in enumerate(pods)
    ]


def _process(pod: Object) -> str:
    return next(
        str(each["name"])
        for each in pod["spec"]["containers"]
        if int(each.get("resources", {}).get("limits", {}).get(names.RESOURCE_TPU, 0))
    )


def a_spec(*ids: str | None, v7x: bool = True) -> PodSpec:
    pod = a_pod().spec(containers=[]).topology("", "tpu7x" if v7x else "tpu-v4-podslice")
    for number, each in enumerate(ids):
        pod.container(f"c{number}").tpu(2)
        if each is not None:
            pod.env(names.TPU_WORKER_ID, each)
    return live(pod.build()).spec


@pytest.mark.parametrize(("label", "spec"), [
    ("other-2", a_spec("0")), ("g-x", a_spec("0")), ("g-99999999999", a_spec("0")),
    ("g-2", a_spec("-1")), ("g-2", a_spec("1", "2")), ("g-2", a_spec("0", "1", v7x=False)),
    ("g-2", a_spec("9999999999")),
])  # fmt: skip
def test_marks_that_make_no_sense_are_no_identity(label: str, spec: PodSpec) -> None:
    with pytest.raises(Denied, match="are not an identity"):
        read_legacy_identity("g", label, spec)


@pytest.mark.parametrize(("ids", "identity"), [
    ((), None), ((None,), None), (("",), None),
    (("3", "3"), HostIdentity(2, 3, "g-2")),  # by a version that knew no v7x
])  # fmt: skip
def test_a_label_is_an_identity_with_ids_alone(
    ids: tuple[str | None, ...], identity: HostIdentity | None
) -> None:
    assert read_legacy_identity("g", "g-2", a_spec(*ids)) == identity
    assert identity_of("g", {names.LABEL_LEGACY_REPLICA_INDEX: "g-2"}, None, HOSTS) is None


@pytest.mark.parametrize(("label", "worker"), [
    ("mine-3", "1"), ("g-1", "-1"), ("g-1", "7"),
], ids=["a label of the user", "no number", "a host that the group has not"])  # fmt: skip
def test_at_admission_such_a_pod_gets_a_identity_as_any_other(label: str, worker: str) -> None:
    template = a_worker("2x2x4", "tpu-v4-podslice", 4).env(names.TPU_WORKER_ID, worker)
    pod = template.label(names.LABEL_LEGACY_REPLICA_INDEX, label).build()
    decided = Webhook(a_cluster("c").group("g", hosts=HOSTS).build()).admit(pod)
    labels = decided.pod["metadata"]["labels"]
    assert (labels[names.LABEL_REPLICA_INDEX], labels[names.LABEL_HOST_INDEX]) == ("0", "0")


@pytest.mark.parametrize(("meta", "name"), [({"name": "mine"}, "mine"), ({}, "c-worker-*")])
def test_a_pod_whose_identity_another_pod_has_is_named(meta: Object, name: str) -> None:
    template = a_worker("2x2x4", "tpu-v4-podslice", 4).env(names.TPU_WORKER_ID, "1")
    pod = template.label(names.LABEL_LEGACY_REPLICA_INDEX, "g-1").build()
    webhook = Webhook(a_cluster("c").group("g", hosts=HOSTS).build())
    assert webhook.admit(pod).answer.allowed
    pod["metadata"] |= meta
    (cause,) = webhook.admit(pod).answer.causes
    assert cause.message.startswith(f"pod {name} carries replica 1 host 1 of worker group g ")
