"""The public entries, each with the parts of its input that can be repeated."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from tests.builders import NAMESPACE, Object, a_cluster, a_pod, cluster_config, manifest, uid_of
from tests.growth.parts import ANY, ENTRY, Part, Path, filled, kind_part, repeated, type_part
from tests.growth.processes import Case, groups_of, process_cases, scene_of
from tests.harness.apiserver import object_review, pod_review
from tests.harness.scenes import NOW, Scene, llama
from tests.harness.work import Build, Call
from webhook.admission.binding_handler import BindingHandler
from webhook.admission.eviction_handler import EvictionHandler
from webhook.admission.pod_handler import PodHandler
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import Mutation, ObjectReviewer
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.objects import Bare, Pod, RayCluster
from webhook.api.review import BadReview
from webhook.cache import serve_stores
from webhook.cache.informer import decode_event
from webhook.cache.serve_stores import PodStore, RayClusterStore
from webhook.cli.cluster_tree import drawing
from webhook.controller.podgroups import lifecycle
from webhook.controller.repair import plan
from webhook.dashboard import view
from webhook.diagnostics.document import encode_report
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.tracker import Tracker
from webhook.groups.annotations import OPT_INS
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, HostIdentity, Key
from webhook.groups.identity_index import Member, Membership, name_hash
from webhook.groups.pod_groups import build_desired, list_replica_names
from webhook.groups.required_reads import Read
from webhook.kubeclient.wire import Codec
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.standalone import load_state
from webhook.manifest.views import as_cluster
from webhook.objects.live_objects import (
    LiveCluster,
    LiveEvent,
    LiveNode,
    LivePod,
    LivePodGroup,
    WebhookConfiguration,
)
from webhook.objects.object_cache import ObjectCache
from webhook.reservation.reservations import standalone
from webhook.reservation.stores import at_once
from webhook.validation.ruleset import check_file

_OBJECT_BYTES: Final = 1_500_000
"""Bytes of an object that the API server stores."""
_ANNOTATION_BYTES: Final = 256 * 1024
_YAML_BYTES: Final = 65536
_POPULATION: Final = 10_000

Change = Callable[[int], Object]
T = TypeVar("T")
U = TypeVar("U")


# Objects

_CLUSTER: Final = a_cluster("c").group("g", hosts=4, replicas=4).build()
_SPEC: Final = _CLUSTER["spec"]
_META: Final = {"name": "c", "namespace": NAMESPACE, "uid": uid_of("c")}
_JOB: Final = {"entrypoint": "python x.py", "rayClusterSpec": _SPEC}
_SERVE: Final = "applications: [{name: a, import_path: 'm:a', route_prefix: /a}]"
OBJECTS: Final[dict[str, Object]] = {
    "RayCluster": _CLUSTER,
    "RayJob": {"spec": _JOB},
    "RayService": {"spec": {"rayClusterConfig": _SPEC, "serveConfigV2": _SERVE}},
    "RayCronJob": {"spec": {"schedule": "0 0 * * *", "jobTemplate": _JOB}},
}
_ELSEWHERE: Final = ("rayClusterSpec", "rayClusterConfig", "jobTemplate", "submitterPodTemplate")
"""Fields with the schema of another kind, or of the template of workers."""


def _object(kind: str) -> Object:
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": _META, **OBJECTS[kind]}


def _paths(kind: str) -> Iterator[Path]:
    for path in repeated(kind_part(kind)):
        inside = next((path.index(each) for each in _ELSEWHERE if each in path), len(path))
        in_head = "headGroupSpec" in path and len(path) > path.index("headGroupSpec") + 4
        if len(path) <= inside + 2 and not in_head and path[0] != "status":
            yield path


def _changes(kind: str) -> Iterator[tuple[str, Change, int]]:
    """Yield the name of each repeated part, objects with as many of them, and the limit."""
    part, document = kind_part(kind), _object(kind)
    for path in _paths(kind):
        yield repetition(document, part, path)
    for name, text in TEXTS.items():
        yield name, text.change(document), _ANNOTATION_BYTES // len(text.entry)
    for name, text in YAML.get(kind, {}).items():
        yield name, text.change(document), _YAML_BYTES // len(text.entry)


def repetition(document: Object, part: Part, path: Path) -> tuple[str, Change, int]:
    """Return the name of a repeated part, objects with as many of them, and the limit."""

    def change(number: int) -> Object:
        changed: Object = filled(document, part, path, number)
        return changed

    sizes = [len(json.dumps(change(number))) for number in (10, 20)]
    size = max((sizes[1] - sizes[0]) // 10, 1)
    return _shown(path), change, max(_OBJECT_BYTES // size, 1)


def _shown(path: Path) -> str:
    return ".".join("[]" if each == ENTRY else str(each) for each in path if each != ANY)


class Text(NamedTuple):
    """A text in an object that repeats an entry, in which `#` stands for its number."""

    where: str
    """The annotation, or the field of `spec`."""
    entry: str
    start: str = ""
    between: str = "\n"
    end: str = ""

    def write(self, number: int) -> str:
        entries = [self.entry.replace("#", f"{each:06}") for each in range(number)]
        return f"{self.start}{self.between.join(entries)}{self.end}"

    def change(self, document: Object) -> Change:
        def annotate(number: int) -> Object:
            metadata = {**document["metadata"], "annotations": {self.where: self.write(number)}}
            return {**document, "metadata": metadata}

        def embed(number: int) -> Object:
            return {**document, "spec": {**document["spec"], self.where: self.write(number)}}

        return annotate if "/" in self.where else embed


_FORMS: Final = {
    "names": "name-#",
    "pairs": "node/key-#=ray/label-#",
    "one value": "jax",
    "one pair": "node/key-#=ray/label",
}
_IPPR: Final = partial(Text, names.ANNOTATION_IPPR, start='{"groups": {', between=", ", end="}}")
_MAXIMA: Final = '{"max-cpu": "8", "max-memory": "8Gi", "resize-timeout": 60}'
TEXTS: Final[dict[str, Text]] = {
    f"{row.annotation}, {form}": Text(row.annotation, entry, between=",")
    for row in OPT_INS
    for form, entry in _FORMS.items()
} | {"ippr, groups": _IPPR(f'"group-#": {_MAXIMA}'), "ippr, keys": _IPPR('"key-#": 1')}

_APPLICATION: Final = "applications:\n- import_path: 'm:a'\n  deployments:\n"
YAML: Final[dict[str, dict[str, Text]]] = {
    "RayService": {
        "applications": Text(
            "serveConfigV2",
            "- {name: a#, import_path: 'm:a', route_prefix: /a#}",
            "applications:\n",
        ),
        "deployments": Text(
            "serveConfigV2", "  - {name: d#, num_replicas: 2, user_config: {}}", _APPLICATION
        ),
        "keys of a deployment": Text(
            "serveConfigV2", "    key-#: 1", f"{_APPLICATION}  - name: a\n"
        ),
    },
    "RayJob": {
        "variables of the runtime environment": Text("runtimeEnvYAML", "  X#: 1", "env_vars:\n"),
        "keys of the runtime environment": Text("runtimeEnvYAML", "key-#: 1"),
    },
}
"""Lists in YAML, by kind."""


# Reviews


def _bytes(review: Object) -> bytes:
    return json.dumps(review).encode()


def _validation(review: Object) -> Call:
    body = _bytes(review)
    return lambda: at_once(ObjectReviewer(RayHandler()).review(body))


def _mutation(review: Object, *state: Object) -> Call:
    loaded, body = load_state([manifest(each) for each in state]), _bytes(review)
    pods = PodHandler(loaded.clusters, loaded.identities)
    shards = ShardHandler(loaded.clusters, standalone(Membership(), loaded.clusters))
    mutation = Mutation(pods, None, shards)

    def review_twice() -> None:
        for _ in range(2):  # the second answer is from a template
            try:
                at_once(mutation.review(body))
            except BadReview:
                return

    return review_twice


def after(create: Callable[[int], T], call: Callable[[T], U]) -> Callable[[int], U]:
    return lambda number: call(create(number))


def _reviews_of_ray_objects() -> Iterator[Case]:
    for kind in OBJECTS:
        for name, change, limit in _changes(kind):
            checking = after(change, partial(_checking, kind))
            yield Case(f"check a file of {kind}", name, checking, limit)
            yield Case(f"validate {kind} UPDATE", name, after(change, _updating), limit)
            if "template" not in name:  # the rules are those for files
                created = after(change, object_review)
                yield Case(f"validate {kind} CREATE", name, after(created, _validation), limit)
                if kind == "RayCluster":
                    yield Case("mutate RayCluster", name, after(created, _mutation), limit)


def _checking(kind: str, document: Object) -> Call:
    return lambda: check_file(kind, document)


def _updating(old: Object) -> Call:
    new = json.loads(json.dumps(old).replace("rayproject/ray:2.54.0", "rayproject/ray:2.55.0"))
    return _validation(object_review(new, old=old))


_LABELLED: Final = a_pod().of("c").worker("g").gpu(8).identity(1, 2, "g-abcde").build()


def _reviews_of_pods() -> Iterator[Case]:
    part, fresh = type_part(Pod), a_pod().of("c").worker("g").gpu(8).build()
    for path in repeated(part):
        for entry, pod in (("fresh", fresh), ("labelled", _LABELLED)):
            name, change, limit = repetition(pod, part, path)
            mutating = after(change, lambda pod: _mutation(pod_review(pod), _CLUSTER))
            yield Case(f"mutate a {entry} pod", name, mutating, limit)
    for name, change, limit in _changes("RayCluster"):
        if "template" not in name:  # the configuration does not contain the templates
            mutating = after(change, lambda cluster: _mutation(pod_review(fresh), cluster))
            yield Case("mutate a pod of the RayCluster", name, mutating, limit)


def _bindings() -> Iterator[Case]:
    def build(number: int) -> Call:
        labels = {f"key-{each}": f"x-{each}" for each in range(number)}

        async def read(_: str) -> dict[str, str]:
            return labels

        mutation = Mutation(PodHandler(ClusterIndex(), load_state([]).identities))
        mutation.bindings = BindingHandler(read)
        binding = {
            "kind": "Binding",
            "metadata": {"name": "p"},
            "target": {"kind": "Node", "name": "n"},
        }
        review = pod_review(binding | {"apiVersion": "v1"})
        review["request"] |= {"subResource": "binding"}
        return lambda: at_once(mutation.review(_bytes(review)))

    yield Case("mutate a binding", "labels of the Node", build, 1000)


def _evictions() -> Iterator[Case]:
    """Yield the refusal of an eviction in a group whose other replicas lack a host each."""

    class Reader:
        reads = 0

        def now(self) -> float:
            return 0.0

        def contact(self, _: Key) -> float:
            return 0.0

        async def read(self, _: Read) -> None:
            self.reads += 1

    def build(number: int) -> Call:
        clusters, members = ClusterIndex(), Membership()
        cluster = a_cluster("c").group("g", hosts=2, replicas=number)
        clusters.put(cluster_config(cluster.opting(max_disrupted_replicas="1")))
        key = GroupKey(NAMESPACE, uid_of("c"), "g")
        for each in range(number):
            for host in range(1 if each else 2):
                identity = HostIdentity(each, host, f"g-{each}")
                name = name_hash(NAMESPACE, f"p{each}-{host}")
                members.put(f"u{each}-{host}", Member(key, identity, ready=True, name=name))
        handler = EvictionHandler(clusters, members, Reader(), None, lambda: 0.0)
        validation = ObjectReviewer(RayHandler(), handler)
        review = pod_review({"metadata": {"namespace": NAMESPACE}})
        review["request"] |= {"subResource": "eviction", "name": "p0-0"}
        return lambda: at_once(validation.review(_bytes(review)))

    yield Case("validate an eviction", "replicas", build, _POPULATION)


# Watch events


def _event(codec: Codec[Any], put: Callable[[], Callable[[Any], object]], document: Object) -> Call:
    text = json.dumps({"type": "MODIFIED", "object": document}).encode()
    store = put()
    return lambda: store(decode_event(codec, text).object)


def _watched(
    kind: type, document: Object, put: Callable[[], Callable[[Any], object]]
) -> Iterator[tuple[str, Build, int]]:
    part, codec = type_part(kind), Codec[Any](kind)
    for path in repeated(part):
        name, change, limit = repetition(document, part, path)
        yield name, after(change, partial(_event, codec, put)), limit


def _put_cluster() -> Callable[[Any], object]:
    return RayClusterStore(ClusterIndex()).put


def _events_of_serve() -> Iterator[Case]:
    meta = {**_LABELLED["metadata"], "uid": "u", "resourceVersion": "5"}
    worker = {**_LABELLED, "metadata": meta}
    for name, build, limit in _watched(Pod, worker, lambda: PodStore(Membership()).put):
        yield Case("watch event of a pod", name, build, limit)
    for name, build, limit in _watched(RayCluster, _CLUSTER, _put_cluster):
        yield Case("watch event of a RayCluster", name, build, limit)
    codec = serve_stores.rayclusters_in("").codec
    for name, text in TEXTS.items():
        event = after(text.change(_CLUSTER), partial(_event, codec, _put_cluster))
        yield Case("watch event of a RayCluster", name, event, _ANNOTATION_BYTES // len(text.entry))


def _observing(scene: Scene, table: str) -> Callable[[], Callable[[Any], object]]:
    """Return a function that creates one that puts an object and examines what changed."""

    def create() -> Callable[[Any], object]:
        examiner = Examiner(scene.observed().load(ObjectCache()))
        examiner.catch_up(NOW)

        def put(value: Any) -> None:  # noqa: ANN401 - an object
            getattr(examiner.object_cache, table).put(value.metadata.uid or "u", value)
            examiner.catch_up(NOW)

        return put

    return create


def _events_of_the_controller() -> Iterator[Case]:
    scene = Scene()
    documents: list[tuple[type, str, Object]] = [
        (LivePod, "pods", scene.pods["llama-tpu-worker-0-0"]),
        (LiveCluster, "clusters", scene.cluster),
        (LiveEvent, "events", _rejection(0)),
        (LivePodGroup, "pod_groups", {"metadata": {"name": "llama-all", "namespace": NAMESPACE}}),
        (WebhookConfiguration, "configurations", scene.webhooks[0]),
        (LiveNode, "nodes", {"metadata": {"name": "node-0-0", "labels": {}}}),
        (Bare, "services", {"metadata": {"name": "llama-headless", "namespace": NAMESPACE}}),
        (Bare, "namespaces", {"metadata": {"name": NAMESPACE}}),
    ]
    for kind, table, document in documents:
        for name, build, limit in _watched(kind, document, _observing(scene, table)):
            yield Case(f"controller, event of {table}", name, build, limit)


# Populations


def _without_pods(number: int) -> Scene:
    scene = scene_of("groups", number)
    return scene.without(*scene.pods)


def _scenes() -> Iterator[tuple[str, Callable[[int], Scene], int]]:
    yield "groups", partial(scene_of, "groups"), 1000
    yield "replicas", partial(scene_of, "replicas"), 2500
    yield "groups without pods", _without_pods, 1000
    for name, change in _CHANGES.items():
        yield name, partial(_changed, change), 2500
    yield "rejections", lambda number: _rejected(number, Scene()), 2500
    yield "rejections of groups", lambda number: _rejected(number, _without_pods(number)), 1000


def _changed(change: Callable[[Scene, str], object], number: int) -> Scene:
    scene = scene_of("replicas", number)
    for name in scene.workers:
        change(scene, name)
    return scene


def _lose(scene: Scene, pod: str) -> None:
    if pod.endswith("-1"):
        scene.without(pod)


def _delete(scene: Scene, pod: str) -> None:
    if pod.endswith("-1"):
        scene.changed(pod, metadata={"deletionTimestamp": "2024-11-21T11:30:00Z"})


def _wait(scene: Scene, pod: str) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": f"no image for {pod}"}}
    status = {"name": "ray-worker", "state": state, "restartCount": 3}
    pending = {"phase": "Pending", "conditions": None, "containerStatuses": [status]}
    scene.changed(pod, status=pending)


def _restart(scene: Scene, pod: str) -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2024-11-21T11:40:00Z"}}
    count = 2 if pod.endswith("-1") else 0
    status = {"name": "ray-worker", "ready": True, "restartCount": count, "lastState": ended}
    scene.changed(pod, status={"containerStatuses": [status]})


def _label(scene: Scene, pod: str, labels: dict[str, str | None]) -> None:
    scene.changed(pod, metadata={"labels": labels})


_IDENTITY: Final = (*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)
_CHANGES: Final[dict[str, Callable[[Scene, str], object]]] = {
    "lost hosts": _lose,
    "pods that are being deleted": _delete,
    "pods that do not run": _wait,
    "pods without identity": partial(_label, labels=dict.fromkeys(_IDENTITY)),
    "identities held twice": lambda scene, pod: scene.copied(pod, f"{pod}-b"),
    "restarted hosts": _restart,
    "strays": lambda scene, pod: _label(scene, pod, {names.LABEL_GROUP: f"other-{pod}"}),
}
"""What happens to the workers of a scene."""


def _rejection(number: int) -> Object:
    return {
        "metadata": {"name": f"e{number}", "namespace": NAMESPACE, "uid": f"e{number}"},
        "involvedObject": {"uid": uid_of("llama"), "kind": "RayCluster", "name": "llama"},
        "reason": "FailedToCreateWorkerPod",
        "message": f'denied: worker group "g{number}" [{number}]',
        "lastTimestamp": "2024-11-21T11:59:00Z",
    }


def _rejected(number: int, scene: Scene) -> Scene:
    scene.events += map(_rejection, range(number))
    return scene


def _reports() -> Iterator[Case]:
    for name, scene, limit in _scenes():
        yield Case("examine", name, after(scene, _examining), limit)
        yield Case("show a report", name, after(scene, _showing), limit)


def _examining(scene: Scene) -> Call:
    observed = scene.observed()
    return lambda: observed.examined(NOW)


def _showing(scene: Scene) -> Call:
    report = scene.examined()

    def show() -> None:
        drawing(report)
        sum(map(len, encode_report(report)))
        Tracker().track(report)
        for cluster in report.clusters:
            view.build_list_section(cluster)
            for page in range(view.pages_of(cluster)):
                view.whole(cluster, page)

    return show


def _populations() -> Iterator[Case]:
    yield Case("live read of a namespace", "RayClusters", _read_all, _POPULATION)
    yield Case("live read of a group", "pods", _read_pods, _POPULATION)
    yield Case("live reads while the watch is behind", "RayClusters", _read_behind, _POPULATION)
    yield Case("list", "RayClusters", _list_all, _POPULATION)
    yield Case("assign shard indices", "RayClusters", _sharded, 2000)
    for part in ("replicas", "pods of one identity"):
        yield Case("repair", part, partial(_planned, part), _POPULATION)
    for granularity in ("replica", "worker-group", "cluster"):
        for part in ("groups", "replicas"):
            build = partial(_grouped, part, granularity)
            yield Case(f"pod groups of each {granularity}", part, build, 2000)
    yield Case("expand", "groups", lambda number: _expanded(groups_of(number).build()), 1000)
    yield Case("expand", "replicas", lambda number: _expanded(llama(number).build()), 5000)


def _clusters(number: int) -> list[RayCluster]:
    text = json.dumps(_CLUSTER)
    return [
        msgspec.json.decode(
            text.replace('"c"', f'"c{each}"').replace("uid-of-c", f"u{each}"), type=RayCluster
        )
        for each in range(number)
    ]


def _read_all(number: int) -> Call:
    store, clusters = RayClusterStore(ClusterIndex()), _clusters(number)
    for cluster in clusters:
        store.put(cluster)
    return lambda: [*store.read_all(NAMESPACE, clusters[: number // 2], 9, 1.0)]


def _read_behind(number: int) -> Call:
    store, clusters = RayClusterStore(ClusterIndex()), _clusters(number)

    def read() -> None:
        for version, cluster in enumerate(clusters, 10):
            [*store.read((NAMESPACE, cluster.metadata.name or ""), [cluster], version, version)]
        for version in range(number + 10):
            store.reach(version)

    return read


def _list_all(number: int) -> Call:
    store, clusters = RayClusterStore(ClusterIndex()), _clusters(number)

    def listed() -> None:
        for version in (5, 6):
            store.begin(version)
            for cluster in clusters[: number // version]:
                store.item(cluster)
            store.end(1.0)

    return listed


def _read_pods(number: int) -> Call:
    members, key = Membership(), GroupKey(NAMESPACE, "u", "g")
    store = PodStore(members)
    for each in range(number):
        members.put(f"p{each}", Member(key, HostIdentity(each // 4, each % 4, f"g-{each // 4}")))
    return lambda: [*store.read(key, [], 9, 1.0)]


def _sharded(number: int) -> Call:
    documents = [
        a_cluster(f"c{each}").group("g").opting(shard_group="s").build() for each in range(number)
    ]
    manifests = [manifest(each) for each in documents]
    return lambda: load_state(manifests)


def _planned(part: str, number: int) -> Call:
    """Return the plan for replicas, every other of which lacks a host, or for one that has more
    pods than identities.
    """
    replicas = number if part == "replicas" else 1
    identities = [
        HostIdentity(each // 4 % replicas, each % 4, f"g-{each // 4 % replicas}")
        for each in range(number * 4)
    ]
    hosts = tuple(
        plan.RepairHost(f"p{each}", f"u{each}", "1", identity, ours=True, runs=True)
        for each, identity in enumerate(identities)
        if part != "replicas" or each % 8
    )
    group = plan.RepairGroup("1", 4, replicas, hosts, head=True, repair=True, restart=True)
    ids = "abcd" if part == "replicas" else [host.id for host in hosts]
    record = plan.Record(whole={f"g-{each}": dict.fromkeys(ids, 0) for each in range(replicas)})
    return lambda: plan.plan(group, record, plan.Memory("1", 0.0), plan.RepairLimits(), 1e3, 1e9)


def _grouped(part: str, granularity: str, number: int) -> Call:
    cluster = a_cluster("c").opting(scheduling_group=granularity)
    cluster.opting(compute_domain=granularity)
    for each in range(number if part == "groups" else 1):
        cluster.group(f"g{each}", hosts=4, replicas=number if part == "replicas" else 1)
    config, members = cluster_config(cluster), Membership()
    for each in range(number):
        key = GroupKey(config.namespace, config.uid, f"g{each}" if part == "groups" else "g0")
        members.put(f"p{each}", Member(key, HostIdentity(each, 0, f"g-{each}")))

    def decide() -> None:
        desired = build_desired(config, list_replica_names(config, members))
        lifecycle.decide(desired, lifecycle.Actual(), resizable=True, live=frozenset())

    return decide


def _expanded(document: Object) -> Call:
    view = as_cluster(manifest(document))
    return lambda: [*expand(document, view)]


def cases() -> list[Case]:
    return [
        *_reviews_of_ray_objects(), *_reviews_of_pods(), *_bindings(), *_evictions(),
        *_events_of_serve(), *_events_of_the_controller(), *_reports(), *_populations(),
        *process_cases(),
    ]  # fmt: skip
