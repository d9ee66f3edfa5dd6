"""Fuzzed bodies, for the endpoints of a standalone service in this process, including caches."""

import base64
import copy
import json
import random
import string
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import httpx
import jsonpatch

from tests import ROOT
from tests.builders import NAMESPACE, a_cluster, a_pod
from tests.harness.apiserver import Object, object_review, pod_review
from webhook.admission.pod_handler import PodHandler
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import Mutation, ObjectReviewer, Outcome
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.groups.identity_index import Membership
from webhook.httpserver.application import Readiness
from webhook.httpserver.review_routes import Reviewer, review_application
from webhook.manifest.reader import Manifest, read_strictly
from webhook.manifest.standalone import load_state
from webhook.reservation.reservations import standalone

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"

IPPR: Final = '{"groups":{"g":{"max-cpu":"4","max-memory":"8Gi","resize-timeout":60}}}'


class Body(NamedTuple):
    """What is sent, and where."""

    path: str
    data: bytes


def examples() -> list[Object]:
    files = [*sorted((ROOT / "examples").glob("*.yaml")), ROOT / "tests" / "demo" / "broken.yaml"]
    return [each.document for file in files for each in read_strictly(file.name, file.read_bytes())]


@cache
def state() -> list[Object]:
    several = a_cluster("several").group("g", hosts=4, replicas=3).group("cpu")
    asking = several.opting(scheduling_group="replica")
    asking = asking.opting(profiles="torchrun,vllm,mnnvl,torch-tpu")
    return [
        a_cluster("plain").group("g", hosts=4, replicas=3).group("cpu").build(),
        asking.opting(topology_key="zone").build(),
        a_cluster("sized").group("g").annotated(names.ANNOTATION_IPPR, IPPR).build(),
    ]


@cache
def reviews() -> list[tuple[str, Object]]:
    """Return reviews with something in every field that is read, each with its path."""
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    affinity = {"podAffinity": terms, "podAntiAffinity": terms}
    tpu = a_pod().of("plain").worker("g").tpu(4).topology("2x2x4").spec(affinity=affinity)
    tpu = tpu.env("TPU_WORKER_ID", "0").env("MEGASCALE_NUM_SLICES", "2").init("before")
    pods = [
        tpu,
        tpu.identity(1, 2, "g-abcde"),
        tpu.label(names.LABEL_LEGACY_REPLICA_INDEX, "g-1"),
        a_pod().of("several").worker("g").topology("2x2x4", "tpu7x").tpu(2).container("b").tpu(2),
        a_pod().of("several").worker("cpu"),
        a_pod().of("sized").worker("g").resource("cpu", 9).resource("memory", "4Gi", "requests"),
    ]
    found = [
        (MUTATE, pod_review(pod.build(), dry_run=dry)) for pod in pods for dry in (True, False)
    ]
    gone = pod_review(pods[1].build(), operation="DELETE")
    gone["request"] |= {"object": None, "oldObject": pods[1].build()}
    found += [(MUTATE, gone)]
    for document in [*examples(), *state()]:
        if document.get("kind") in names.RAY_KINDS:
            document["metadata"].setdefault("namespace", NAMESPACE)
            old = copy.deepcopy(document)
            shard = document["metadata"].setdefault("annotations", {})
            shard[names.ANNOTATION_SHARD_GROUP] = "x"
            labels = document["metadata"].setdefault("labels", {})
            labels[names.LABEL_KUEUE_QUEUE] = "tpus"
            asked = object_review(document), object_review(document, old=old)
            found += [(path, review) for path in (VALIDATE, MUTATE) for review in asked]
    return found


_TEXTS: Final = (
    *("", "0", "1", "-1", "4", "true", "2x2x2", "2x2x4x4", "x" * 300, "\x00", "٣", "\ud800"),
    *("999999999999", "9" * 4400, "1e309", "0x10", "1_0", "4Gi", "500m", "NaN", "$(TPU_NAME)"),
    *(names.LABEL_GROUP, names.LABEL_IGNORE, names.RESOURCE_TPU, "nvidia.com/gpu", "g-1", "/~01"),
)


_SCALARS: Final = (None, True, False, 0, 1, -1, 4096, 2**31, 2**70, 0.5, 1e300, *_TEXTS)
_DEPTH: Final = 3


def a_value(choose: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    match choose.randrange(8 if depth < _DEPTH else 6):
        case 6:
            return [a_value(choose, depth + 1) for _ in range(choose.randrange(4))]
        case 7:
            keys = choose.choices(_TEXTS, k=choose.randrange(4))
            return {key: a_value(choose, depth + 1) for key in keys}
        case 0:
            return "".join(choose.choices(string.printable, k=choose.randrange(20)))
        case _:
            return choose.choice(_SCALARS)


_EARLY: Final = 0.15
_INNER: Final = 0.95
_MISDIRECTED: Final = 0.02
_DAMAGED: Final = 0.25
_CUT: Final = 0.1
"""How likely it is that a place is not the deepest, that it is in the object, that a body goes to
the other path, that its bytes are damaged, and that these lack their end.
"""


def _place(choose: random.Random, document: Any) -> tuple[Any, Any] | None:  # noqa: ANN401 - JSON
    """Return something within a document, as what holds it and its key."""
    held: Any = document
    place = None
    while isinstance(held, dict | list) and held:
        key = choose.choice(list(held)) if isinstance(held, dict) else choose.randrange(len(held))
        place = held, key
        held = held[key]
        if choose.random() < _EARLY:
            break
    return place


def changed(choose: random.Random, review: Object) -> Object:
    """Return a review, or an event of a watch, with a few of its parts replaced, left out, put
    twice or put elsewhere; most of them parts of the object in it.
    """
    document = copy.deepcopy(review)
    for _ in range(choose.randint(1, 4)):
        holder = document.get("request", document)
        inner = holder.get("object") if isinstance(holder, dict) else None
        within = inner if inner and choose.random() < _INNER else document
        place = _place(choose, within)
        if place is None:
            break
        held, key = place
        match choose.randrange(5):
            case 0:
                del held[key]
            case 1 if isinstance(held, list):
                held.insert(choose.randrange(len(held) + 1), copy.deepcopy(held[key]))
            case 2 if isinstance(held, dict):
                held[choose.choice((*_TEXTS, key))] = copy.deepcopy(held[key])
            case 3:
                other = _place(choose, within)
                held[key] = copy.deepcopy(other[0][other[1]]) if other else None
            case _:
                held[key] = a_value(choose)
    return document


def damaged(choose: random.Random, data: bytes) -> bytes:
    body = bytearray(data)
    for _ in range(choose.randint(1, 5)):
        at = choose.randrange(len(body) + 1)
        body[at : at + choose.randrange(4)] = choose.randbytes(choose.randrange(5))
    return bytes(body[: choose.randrange(len(body) + 1)] if choose.random() < _CUT else body)


def bodies(choose: random.Random) -> Callable[[], Body]:
    pods = [each for each in reviews() if each[1]["request"]["kind"]["kind"] == "Pod"]
    known = reviews() + pods * (len(reviews()) // len(pods))

    def make() -> Body:
        path, review = choose.choice(known)
        if choose.random() < _MISDIRECTED:
            path = MUTATE if path == VALIDATE else VALIDATE
        if choose.random() < _DAMAGED:
            return Body(path, damaged(choose, json.dumps(review).encode()))
        data = json.dumps(changed(choose, review), ensure_ascii=choose.choice((True, False)))
        return Body(path, data.encode(errors="surrogatepass"))

    return make


class Observer:
    """Keeps the last failure."""

    error: Exception | None = None

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        """Do nothing."""

    def undecided(self, reason: str) -> None:
        """Do nothing."""

    def refused(self, status: int, reason: str) -> None:
        """Do nothing."""

    def failed(self, error: Exception) -> None:
        self.error = error


class Service:
    """The application of a standalone service, asked without a wire."""

    def __init__(self, documents: Sequence[Object]) -> None:
        known = load_state([Manifest("state", document) for document in documents])
        self.observer = Observer()
        gate = Readiness({}, {})
        pods = PodHandler(known.clusters, known.identities)
        shards = ShardHandler(known.clusters, standalone(Membership(), known.clusters))
        self._pods = pods
        reviewers: dict[str, Reviewer] = {
            MUTATE: Mutation(pods, None, shards),
            VALIDATE: ObjectReviewer(RayHandler()),
        }
        self._application = review_application(reviewers, gate, self.observer)

    @property
    def hits(self) -> int:
        return self._pods.patches.hits

    async def ask(self, body: Body) -> tuple[int, bytes]:
        transport = httpx.ASGITransport(self._application)
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post(body.path, content=body.data, headers=headers)
        return answer.status_code, answer.content


def applied(body: Body, answer: bytes) -> Object | None:
    """Return the object of a body after the patch of its answer, None where there is no patch or
    where damage outside of what is read makes the body no JSON.

    Raises jsonpatch.JsonPatchException or jsonpatch.JsonPointerException for a patch that does not
    apply.
    """
    patch = json.loads(answer)["response"].get("patch")
    if patch is None:
        return None
    try:
        sent = json.loads(body.data.decode(errors="replace"), strict=False)["request"]["object"]
    except json.JSONDecodeError:
        return None
    after: Object = jsonpatch.apply_patch(sent, json.loads(base64.b64decode(patch)))
    return after
