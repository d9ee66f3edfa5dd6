"""The repairer against an API server of dictionaries: reads, writes, and messages on failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import jsonpatch
import msgspec
import pytest

from tests.builders import NAMESPACE, Object, a_cluster, a_pod, cluster_config, uid_of
from webhook.api import names
from webhook.api.formats import mark
from webhook.controller.repair.plan import CHANGING, LOST, Record, RepairLimits
from webhook.controller.repair.repair_reconciler import RepairReconciler
from webhook.controller.repair.repair_records import RepairRecords
from webhook.controller.repair.repair_store import RepairStore
from webhook.diagnostics.tracker import EventRequest, SeriesKey
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_labels import WORKER_POD_BYTES_MAX
from webhook.kubeclient.client import Api, Operation, Query
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

HOSTS = 2
TURNS = 200
"""Of the event loop, in which everything happens that is due."""
SELECTOR = "ray.io/cluster=c,ray.io/node-type in (head,worker)"
CONFIG_MAPS = "/api/v1/namespaces/ray-webhook/configmaps"
RECORDS = f"{CONFIG_MAPS}/records"


async def nothing(_verb: str, _path: str) -> None:
    """Do nothing."""


class Server(Api):
    """Pods, one RayCluster and the ConfigMap with the records, and the events that were written."""

    def __init__(self, **annotations: str) -> None:
        asked = annotations or {names.ANNOTATION_REPAIR: "true"}
        cluster = a_cluster("c").group("g", hosts=HOSTS)
        for key, value in asked.items():
            cluster = cluster.annotated(key, value)
        self.cluster = cluster
        self.document = cluster.build()
        self.document["metadata"]["generation"] = 1
        self.pods: dict[str, Object] = {}
        self.heads: dict[str, Object] = {}
        self.records: Object | None = None
        self.policies: dict[str, Object] = {
            "validatingadmissionpolicies": {"failurePolicy": "Fail"},
            "validatingadmissionpolicybindings": {"validationActions": ["Deny"]},
        }
        self.events: list[EventRequest] = []
        self.before: Callable[[str, str], Awaitable[None]] = nothing
        """Called with the verb and the path of each request."""
        self.versions = 0
        self.timeout = asyncio.timeout
        self.add_head("head")
        for host in range(HOSTS):
            self.add(f"p{host}", host)

    def add_head(self, name: str) -> None:
        built = a_pod().of("c").head().build()
        built["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        self.heads[name] = self.touch(built)

    def add(self, name: str, host: int) -> None:
        pod = a_pod().of("c").worker("g").identity(0, host, "g-abcde")
        built = pod.annotated(names.ANNOTATION_IDENTITY, names.IDENTITY_ASSIGNED).build()
        built["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        running = {"name": "ray-worker", "restartCount": 0, "state": {"running": {}}}
        built["status"] = {"phase": "Running", "containerStatuses": [running]}
        self.pods[name] = self.touch(built)

    def touch(self, pod: Object) -> Object:
        self.versions += 1
        pod["metadata"]["resourceVersion"] = str(self.versions)
        return pod

    async def get(
        self,
        path: str,
        query: Query = (),
        deadline: float = 0.0,
        accept: str = "",
        bytes_max: int = 0,
    ) -> bytes:
        del deadline, accept, bytes_max
        await self.before("get", path)
        if path == RECORDS:
            if self.records is None:
                raise ApiError("missing", "no")
            return msgspec.json.encode(self.records)
        if path.startswith("/apis/admissionregistration"):
            if (kind := path.split("/")[4]) not in self.policies:
                raise ApiError("missing", "no")
            return msgspec.json.encode({"spec": self.policies[kind]})
        if path.endswith("/rayclusters"):
            assert dict(query)["fieldSelector"] == "metadata.name=c"
            items = [self.document]
        else:
            assert path == f"/api/v1/namespaces/{NAMESPACE}/pods"
            assert dict(query)["labelSelector"] == SELECTOR
            items = [*self.heads.values(), *self.pods.values()]
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})

    async def patch(
        self, path: str, operations: Sequence[Operation], version: str = "", deadline: float = 0.0
    ) -> None:
        del deadline
        await self.before("patch", path)
        name = path.rpartition("/")[2]
        known = self.records if path == RECORDS else self.pods[name]
        assert known is not None
        if version != known["metadata"]["resourceVersion"]:
            raise ApiError("conflict", "another version")
        changed = self.touch(jsonpatch.apply_patch(known, [dict(each) for each in operations]))
        if path == RECORDS:
            self.records = changed
        else:
            self.pods[name] = changed

    async def create(
        self, path: str, body: Mapping[str, object], deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del deadline, query
        assert path == CONFIG_MAPS
        self.records = self.touch(msgspec.json.decode(msgspec.json.encode(body)))
        return msgspec.json.encode(self.records)

    async def delete(self, path: str, uid: str, version: str, deadline: float = 0.0) -> None:
        del deadline
        await self.before("delete", path)
        pod = self.pods[path.rpartition("/")[2]]
        meta = pod["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (uid, version):
            raise ApiError("conflict", "another pod")
        del self.pods[meta["name"]]

    async def record(self, notices: Iterable[EventRequest], now: float) -> None:
        assert now > 0
        self.events += notices

    def labels(self, key: str) -> list[str]:
        return [pod["metadata"]["labels"].get(key, "") for pod in self.pods.values()]

    def kept(self, group: str = "g") -> Record:
        data = (self.records or {}).get("data") or {}
        text = data.get(uid_of("c"), "{}")
        return msgspec.json.decode(text, type=dict[str, Record]).get(group, Record())

    @property
    def recorded(self) -> bool:
        return "g-abcde" in self.kept().whole


def looked(
    server: Server, *times: float, per_hour: int = 6, ignoring: bool = True
) -> RepairReconciler:
    """Let a repairer that begins look at these times, and return it."""
    clusters = ClusterIndex(ignoring=ignoring)
    clusters.put(cluster_config(server.cluster))
    left = [time for time in times for _ in range(2)]  # a resync, and then the RayClusters
    now = [left.pop(0)]

    async def sleep(_: float) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if not left:
            raise asyncio.CancelledError
        now[0] = left.pop(0)

    limits = RepairLimits(per_hour=per_hour)
    time_source = Clock(clock=lambda: now[0], sleep=sleep)
    records = RepairRecords(server, "ray-webhook", "records")
    store = RepairStore(server, records, ignoring=ignoring)
    repairer = RepairReconciler(lambda: True, clusters, store, server.record, limits, time_source)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(repairer.run())
    return repairer


@pytest.fixture
def server() -> Server:
    """A server with a replica that was recorded."""
    server = Server()
    looked(server, 0.0)
    return server


def test_a_whole_replica_is_recorded_once_and_stays(server: Server) -> None:
    assert (server.recorded, len(server.kept().whole["g-abcde"])) == (True, HOSTS)
    first = server.records
    looked(server, 0.0, 50.0, 100.0)
    assert server.records is first
    assert len(server.pods) == HOSTS


def test_the_rest_of_a_broken_replica_is_deleted(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    del server.pods["p0"]
    with caplog.at_level(logging.INFO, "webhook.controller"):
        repairer = looked(server, 0.0, 31.0)
    assert server.pods == {}
    assert repairer.deleted == {"host-lost": 1}
    (event,) = server.events
    assert event.key == SeriesKey(uid_of("c"), ("g", "g-abcde"), "ReplicaReplaced")
    assert event.note == "replica g-abcde is replaced, host-lost: deleted p1"
    assert any("deleted pod team/p1" in message for message in caplog.messages)
    assert any(CHANGING in message for message in caplog.messages)


def test_a_pod_that_changes_meanwhile_is_looked_at_again(server: Server) -> None:
    del server.pods["p0"]

    async def overtaken(verb: str, path: str) -> None:
        if verb == "patch" and path.endswith("p1"):
            server.touch(server.pods["p1"])
            server.before = nothing

    server.before = overtaken
    looked(server, 0.0, 31.0)
    assert server.labels(names.LABEL_MARKED_FOR_DELETION) in ([], [""])
    looked(server, 0.0, 31.0)
    assert server.pods == {}


def test_a_deletion_that_cannot_be_recorded_is_not_begun_and_spends_nothing(server: Server) -> None:
    del server.pods["p0"]
    recorded = server.records

    async def late(verb: str, path: str) -> None:
        if (verb, path) == ("patch", RECORDS):
            raise ApiError("conflict", "another controller leads")

    server.before = late
    repairer = looked(server, 0.0, 31.0, 40.0)
    assert repairer.queue.failures == {"conflict": 2}  # one for each time that it was due
    assert (server.labels(names.LABEL_MARKED_FOR_DELETION), server.records) == ([""], recorded)
    server.before = nothing
    looked(server, 0.0, 31.0)
    assert ([*server.pods], [*server.kept().replaced]) == ([], ["g-abcde"])


def test_a_deletion_that_meets_a_conflict_is_tried_again_and_spends_the_budget_once(
    server: Server,
) -> None:
    del server.pods["p0"]
    refused = list[str]()

    async def overtaken(verb: str, path: str) -> None:
        if verb == "delete" and len(refused) < 4:
            refused.append(path)
            raise ApiError("conflict", "another version")

    server.before = overtaken
    looked(server, 0.0, 31.0, per_hour=1)
    assert ([*server.pods], server.kept().replaced) == (["p1"], {})
    looked(server, 0.0, 5.0, per_hour=1)
    assert ([*server.pods], [*server.kept().replaced]) == ([], ["g-abcde"])


def test_nothing_is_replaced_while_no_head_pod_lasts(server: Server) -> None:
    del server.pods["p0"]
    head = server.heads["head"]
    head["status"] = {"phase": "Failed"}
    looked(server, 0.0, 31.0)
    head["status"] = {"phase": "Running"}
    head["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    looked(server, 0.0, 31.0)
    del server.heads["head"]
    looked(server, 0.0, 31.0)
    assert server.labels(names.LABEL_MARKED_FOR_DELETION) == [""]
    server.add_head("head")
    looked(server, 0.0, 31.0)
    assert server.pods == {}


def test_pods_of_a_replica_are_deleted_at_once_and_reported_though_one_deletion_fails() -> None:
    server = Server(**{names.ANNOTATION_RESTART: names.RESTART_REPLICA})
    looked(server, 0.0)
    server.pods["p0"]["status"]["containerStatuses"][0]["restartCount"] = 1
    asked = list[str]()

    async def slow(verb: str, path: str) -> None:
        if verb == "delete":
            asked.append(path[-2:])
            await asyncio.sleep(0)
            assert len(asked) == HOSTS
            if asked[0] == path[-2:]:
                raise ApiError("unavailable", "no")

    server.before = slow
    repairer = looked(server, 0.0, 31.0)
    assert repairer.queue.failures == {"unavailable": 1}
    assert [event.note for event in server.events] == [
        "replica g-abcde is replaced, container-restarted: deleted p1"
    ]


def test_a_pod_made_by_hand_with_the_identity_of_another_is_deleted_and_the_others_stay(
    server: Server,
) -> None:
    server.add("by-hand", 0)
    looked(server, 0.0, 50.0, 100.0)
    assert [*server.pods] == ["p0", "p1"]
    assert (server.recorded, server.kept().replaced) == (True, {})
    (event,) = server.events
    assert event.key.reason == "DuplicateDeleted"
    assert event.note == "replica g-abcde is complete without by-hand: deleted, host-duplicate"


@pytest.mark.parametrize("absent", [
    {"validatingadmissionpolicies": None}, {"validatingadmissionpolicybindings": None},
    {"validatingadmissionpolicybindings": {"validationActions": ["Audit"]}},
])  # fmt: skip
def test_without_the_policy_for_tenants_repair_is_off_and_says_so(
    server: Server, absent: dict[str, Object | None], caplog: pytest.LogCaptureFixture
) -> None:
    del server.pods["p0"]
    known = server.policies
    server.policies = {key: each for key, each in (known | absent).items() if each is not None}
    repairer = looked(server, 0.0, 59.5, 60.0, 119.5)
    assert [*server.pods] == ["p1"]
    assert repairer.queue.failures == {"unprotected": 2}
    (log_text,) = [text for text in caplog.messages if "repair is off" in text]
    assert "ray-webhook-identity-labels" in log_text
    assert "kubectl apply -k manifests/policies/tenants" in log_text
    server.policies = known
    looked(server, 0.0, 31.0)
    assert server.pods == {}
    assert "repair is on" not in caplog.text


def test_repair_is_on_again_when_the_policy_for_tenants_is_applied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    server = Server()
    known, server.policies = server.policies, {}
    reads = []

    async def restore(_verb: str, path: str) -> None:
        if path.startswith("/apis/admissionregistration"):
            reads.append(path)
            server.policies = known if len(reads) > 1 else {}

    server.before = restore
    looked(server, 0.0, 60.0)
    assert "repair is on" in caplog.text


def test_each_group_of_a_cluster_is_repaired_at_one_look() -> None:
    server = Server()
    server.document["spec"]["workerGroupSpecs"].append(
        {**server.document["spec"]["workerGroupSpecs"][0], "groupName": "other"}
    )
    server.add("q0", 0)
    server.add("q1", 1)
    for name in ("q0", "q1"):
        server.pods[name]["metadata"]["labels"] |= {
            names.LABEL_GROUP: "other",
            names.LABEL_REPLICA_NAME: "other-abcde",
        }
    looked(server, 0.0)
    del server.pods["p0"], server.pods["q0"]
    looked(server, 0.0, 31.0)
    assert server.pods == {}
    assert server.kept("g").replaced.keys() == {"g-abcde"}
    assert server.kept("other").replaced.keys() == {"other-abcde"}


def test_the_record_of_a_cluster_that_asks_for_nothing_any_more_is_removed(server: Server) -> None:
    server.cluster = a_cluster("c").group("g", hosts=HOSTS)
    looked(server, 0.0)
    assert (server.records or {})["data"] == {}


def test_a_cluster_that_was_recreated_or_is_being_deleted_is_left_alone() -> None:
    for change in ({"uid": "another"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        server = Server()
        looked(server, 0.0)
        del server.pods["p0"]
        server.document["metadata"] |= change
        looked(server, 0.0, 31.0)
        assert [*server.pods] == ["p1"]


@pytest.mark.parametrize("ignoring", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_label_exempts_a_cluster_where_allowed(indexed: bool, ignoring: bool) -> None:
    server = Server()
    if indexed:
        server.cluster.label(names.LABEL_IGNORE, "true")
    server.document["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    looked(server, 0.0, ignoring=ignoring)
    assert server.recorded is not ignoring


@pytest.mark.parametrize("count", [1, HOSTS])
def test_a_label_written_by_hand_deletes_nothing_and_is_removed(server: Server, count: int) -> None:
    for name in ("p0", "p1")[:count]:
        server.pods[name]["metadata"]["labels"][names.LABEL_MARKED_FOR_DELETION] = mark(
            LOST, f"uid-{name}"
        )
    looked(server, 0.0, 50.0, 100.0)
    assert [*server.pods] == ["p0", "p1"]
    assert server.labels(names.LABEL_MARKED_FOR_DELETION) == ["", ""]
    assert server.events == []


@pytest.mark.parametrize("label", [LOST, mark(LOST, "uid-of-a-previous-pod")])
def test_a_label_that_a_pod_template_carries_is_none(label: str) -> None:
    server = Server()
    for pod in server.pods.values():
        pod["metadata"]["labels"][names.LABEL_MARKED_FOR_DELETION] = label
    looked(server, 0.0, 50.0)
    assert [*server.pods] == ["p0", "p1"]
    assert server.labels(names.LABEL_MARKED_FOR_DELETION) == [label, label]


@pytest.mark.parametrize("text", ["", "{", '{"g": {"whole": 1}}'])
def test_an_unreadable_record_is_replaced(
    server: Server, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert server.records is not None
    server.records["data"][uid_of("c")] = text
    assert looked(server, 0.0, 5.0).queue.failures == {}
    assert server.recorded
    assert "is not a record of this version" in caplog.text


def test_a_proxy_in_front_of_ray_may_restart_and_ray_behind_it_may_not() -> None:
    server = Server(**{names.ANNOTATION_RESTART: names.RESTART_REPLICA})
    for pod in server.pods.values():
        pod["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy"})
        proxy = {"name": "proxy", "restartCount": 0, "state": {"running": {}}}
        pod["status"]["containerStatuses"].insert(0, proxy)
    looked(server, 0.0)
    proxy, ray = server.pods["p0"]["status"]["containerStatuses"]
    proxy["restartCount"] = 1
    looked(server, 0.0, 31.0)
    assert server.events == []
    proxy["restartCount"], ray["restartCount"] = 0, 1
    looked(server, 0.0, 31.0)
    assert server.events != []


def test_a_running_replica_with_a_pod_that_is_too_large_to_be_read_stays() -> None:
    asked = {names.ANNOTATION_RESTART: names.RESTART_REPLICA, names.ANNOTATION_REPAIR: "true"}
    server = Server(**asked)
    looked(server, 0.0)
    server.pods["p0"]["spec"]["padding"] = "x" * WORKER_POD_BYTES_MAX
    for name, pod in server.pods.items():  # all have restarted, and the count of one is not read
        pod["status"]["containerStatuses"][0]["restartCount"] = 1
        server.pods[name] = server.touch(pod)
    looked(server, 0.0, 31.0)
    assert (server.events, len(server.pods)) == ([], HOSTS)
