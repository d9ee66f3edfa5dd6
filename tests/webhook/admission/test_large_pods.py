"""A large pod is decoded outside the event loop, and has the same answer as any other pod."""

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.builders import PodBuilder, a_cluster, a_pod, manifest
from tests.harness.apiserver import pod_review
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import LARGE, Mutation
from webhook.manifest.standalone import load_state

CLUSTER = (
    a_cluster("c").annotated("admission.ray.io/scheduling-group", "cluster").group("g", hosts=2)
)


class Beside:
    """Stands in for the thread, and counts what it is given."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(
        self, client: str, body: bytes, function: Callable[..., object], *arguments: object
    ) -> object:
        del client
        self.calls += 1
        return function(body, *arguments)


class Service:
    """A service of one RayCluster, without a wire."""

    def __init__(self) -> None:
        known = load_state([manifest(CLUSTER.build())])
        self.beside = Beside()
        pods = PodHandler(known.clusters, known.identities)
        self._mutation = Mutation(pods, in_thread=self.beside)  # type: ignore[arg-type]

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
        assert service.beside.calls == 1


def test_a_large_pod_with_too_many_containers_is_denied_before_their_variables_are_read() -> None:
    pod = crowded(501).spec(initContainers=[{"name": "init", "env": "no list"}])
    for large, problem in ((True, b"[variables-too-large]"), (False, b"not a list of variables")):
        assert problem in Service().review(pod, "review", large=large)
