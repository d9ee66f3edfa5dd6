"""Recurring reviews: whatever is in a body, it reads as if no other had been read before it."""

import json
from collections.abc import Callable
from itertools import islice
from time import process_time_ns
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver import pod_review
from tests.bench.reviews import review_bodies
from tests.builders import Object, a_pod
from webhook.admission.codec import decode_pod
from webhook.admission.errors import BadReview
from webhook.admission.review_cache import ALIKE, BODY_MAX, HOLES_MAX, KEPT, ReviewCache
from webhook.kube.names import LABEL_HOST_INDEX as HOST
from webhook.kube.names import LABEL_REPLICA_INDEX as INDEX
from webhook.kube.names import LABEL_REPLICA_NAME as NAME
from webhook.kube.review import AdmissionRequest

TEXT = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{<first>"uid":"<uid>",'
    b'"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},'
    b'"operation":"CREATE","object":{"metadata":{<meta>"generateName":"c-g-worker-","labels":{<label>"ray.io/node-type":"worker"},'
    b'"managedFields":[{"manager":"kuberay-operator","time":"<time>"}]},"spec":{"containers":[{"name":"<name>","env":[<env>],'
    b'"volumeMounts":[{"name":"kube-api-access-<volume>"}]}],"volumes":[{"name":"kube-api-access-<volume>"}]}}<last>}}'
)

PLACES = {
    b"<first>": [
        b'"name":"uid","options":{"uid":"<uid>"},',
        b'"uid":"<uid>",',
        b'"userInfo":{"uid":"<uid>"},',
    ],
    b"<meta>": [
        b'"uid":"<uid>",',
        b'"annotations":{"time":"<time>"},',
        b'"ownerReferences":[{"uid":"<uid>","time":"<time>"}],',
    ],
    b"<label>": [
        b'"time":"<time>",',
        b'"kube-api-access-<volume>":"",',
        b'"v":"kube-api-access-<volume>",',
        b'"\\"time":"<time>",',
    ],
    b"<name>": [b"kube-api-access-<volume>", b"<uid>", b'r","time":"<time>'],
    b"<env>": [
        b'{"name":"kube-api-access-<volume>"}',
        b'{"name":"a","time":"<time>"}',
        b'{"name":"a","value":"<volume>"}',
    ],
    b"<last>": [
        b',"uid":"<uid>"',
        b',"uid":"5eab89"',
        b',"dryRun":true',
        b',"namespace":"<volume>"',
        b',"time":"<time>"',
        b',"time":',
    ],
}
"""Where else the texts that are made up for each pod may stand, and be read or passed over."""


ODD = [
    b'"',
    b"\\",
    b"\\n",
    b'\\"',
    b"\\\\",
    b"\\u00",
    b'",',
    b'":',
    b"\x00",
    b"\x7f",
    b"\xc3\xa9",
    b"\xff",
    b" ",
    b"{",
    b"<",
]
"""What is no letter of a JSON string, or not that letter which it stands for."""


def letters(alphabet: str, size: int) -> st.SearchStrategy[bytes]:
    """Return texts of one size, such as kube-apiserver writes."""
    return st.text(alphabet, min_size=size, max_size=size).map(str.encode)


def spoilt(pod: dict[bytes, bytes], odd: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the texts of a pod, of which some begin with what is odd, and keep their size."""
    return {place: (odd.get(place, b"") + text)[: len(text)] for place, text in pod.items()}


MADE_UP = st.fixed_dictionaries(
    {b"<uid>": letters("ab0-", 6), b"<time>": letters("0TZ:", 4), b"<volume>": letters("ab0", 5)}
)
SPOILT = st.builds(
    spoilt,
    MADE_UP,
    st.dictionaries(
        st.sampled_from([b"<uid>", b"<time>", b"<volume>"]), st.sampled_from(ODD), max_size=1
    ),
)


def outcome(
    read: Callable[[bytes], AdmissionRequest[Any]], body: bytes
) -> AdmissionRequest[Any] | str:
    """Return what a body reads as, or why it is a bad review."""
    try:
        return read(body)
    except BadReview as bad:
        return str(bad)


def filled(text: bytes, parts: dict[bytes, bytes]) -> bytes:
    """Return a text with its parts in their places."""
    for place, part in parts.items():
        text = text.replace(place, part)
    return text


@settings(max_examples=300)
@given(
    places=st.lists(
        st.sampled_from([(place, text) for place, texts in PLACES.items() for text in texts]),
        max_size=2,
    ),
    pods=st.lists(MADE_UP | SPOILT, min_size=2, max_size=8),
)
def test_a_body_reads_the_same_whatever_was_read_before(
    places: list[tuple[bytes, bytes]], pods: list[dict[bytes, bytes]]
) -> None:
    reviews = ReviewCache()
    text = filled(TEXT, dict.fromkeys(PLACES, b"") | dict(places))
    for pod in pods:
        body = filled(text, pod)
        assert outcome(reviews.read, body) == outcome(decode_pod, body)


def test_pods_of_a_group_are_read_once() -> None:
    reviews = ReviewCache()
    bodies = list(islice(review_bodies(), 3000))  # three seconds
    found = [reviews.read(body) for body in bodies]
    assert len({id(request.object) for request in found[2:]}) == 1
    assert (reviews.misses, reviews.hits) == (2, len(bodies) - 2)
    assert len({request.uid for request in found}) == len(bodies)
    assert found[-1] == decode_pod(bodies[-1])


def test_pods_of_many_groups_are_read_once_each() -> None:
    reviews = ReviewCache()
    groups = [worker(f"g{i}") for i in range(10)]
    found = [reviews.read(review(pod)).object for pod in groups * 4]
    assert [request and request.labels["ray.io/group"] for request in found] == [
        f"g{i}" for i in range(10)
    ] * 4
    assert reviews.hits == 2 * len(groups)


def test_pods_that_carry_seats_are_read_once_and_keep_them() -> None:
    reviews = ReviewCache()
    seats = [(replica, host) for replica in range(30) for host in range(8)]
    for replica, host in seats:
        labels = {INDEX: str(replica), NAME: f"g-abc{replica:02}", HOST: str(host)}
        body = review(worker("g", labels))
        assert reviews.read(body) == decode_pod(body)
    assert reviews.misses == 4  # two sizes of a body, and of each the first two


def test_a_seat_label_that_also_stands_elsewhere_is_read_there_too() -> None:
    reviews = ReviewCache()
    for replica in range(6):
        term = {"labelSelector": {"matchLabels": {NAME: f"g-abcd{replica}"}}, "topologyKey": "zone"}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        labels = {INDEX: str(replica), NAME: f"g-abcd{replica}", HOST: "0"}
        body = review(worker("g", labels, {"affinity": affinity}))
        assert reviews.read(body) == decode_pod(body)
    assert reviews.hits == 0


def test_look_alikes_of_what_is_made_up_cost_no_more_than_twice_their_reading() -> None:
    reviews = ReviewCache()
    many = {f"kube-api-access-{i:05}": "" for i in range(HOLES_MAX + 1)}
    for number in range(40):
        body = review(worker("g", annotations=many | {"n": f"{number:03}"}))
        assert reviews.read(body) == decode_pod(body)
    # What is compared with each body
    assert [len(known) for known in reviews._known.values()] == [0]  # noqa: SLF001


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "c-g-worker-x7k2p"}},
        {"metadata": {"labels": {"ray.io/node-type": "head"}}},
        {"metadata": {"annotations": {"long": "x" * BODY_MAX}}},
    ],
    ids=["has a name", "is a head", "is large"],
)
def test_what_does_not_recur_is_not_kept(change: Object) -> None:
    pod = a_pod().worker("g").of("c").build()
    for key, value in change["metadata"].items():
        pod["metadata"][key] = (
            {**pod["metadata"].get(key, {}), **value} if isinstance(value, dict) else value
        )
    reviews = ReviewCache()
    for _ in range(4):
        reviews.read(review(pod))
    assert reviews.hits == 0


def test_only_so_many_are_kept() -> None:
    reviews = ReviewCache()
    for number in range(KEPT + 1):
        pod = worker(f"g{number}")
        for _ in range(3):
            assert reviews.read(review(pod)) == decode_pod(review(pod))
    assert len(reviews._known) == 1  # noqa: SLF001 - memory is what this is about
    assert reviews.hits == KEPT + 1


def test_bodies_that_are_alike_but_for_what_is_read_are_compared_with_few_others() -> None:
    reviews = ReviewCache()
    pod = a_pod().worker("g").of("c").build()
    for number in range(40):
        pod["metadata"]["annotations"] = {"number": f"{number:05}"}
        assert reviews.read(review(pod)) == decode_pod(review(pod))
    assert [len(known) for known in reviews._known.values()] == [ALIKE]  # noqa: SLF001 - as above


def worker(
    group: str,
    labels: Object | None = None,
    spec: Object | None = None,
    annotations: Object | None = None,
) -> Object:
    """Return a worker pod, named as KubeRay has it named."""
    pod = a_pod().worker(group).of("c").spec(**(spec or {})).build()
    pod["metadata"]["generateName"] = f"c-{group}-worker-"
    pod["metadata"]["labels"] |= labels or {}
    pod["metadata"]["annotations"] = annotations or {}
    return pod


def review(pod: Object) -> bytes:
    """Return the review of a pod, with one uid."""
    return json.dumps(
        pod_review(pod, uid="705ab4f5-6393-11e8-b7cc-42010a800002"), separators=(",", ":")
    ).encode()


def look_alike(number: int, holes: int) -> bytes:
    """Return a review with texts that look as if they were made up, in places where they have a
    meaning.
    """
    pod = a_pod().worker("g").build()
    pod["metadata"]["generateName"] = "c-g-worker-"
    pod["spec"]["containers"][0]["env"] = [{"name": "a", "value": "kube-api-access-abcde"}] * holes
    return json.dumps(pod_review(pod, uid=f"{number:036d}"), separators=(",", ":")).encode()


@pytest.mark.parametrize("holes", [1, 30, 1250])
def test_bodies_made_to_be_slow_take_no_longer_than_reading_each_twice(holes: int) -> None:
    cache, known, cold = ReviewCache(credit=100), 0, 0
    for number in range(1000):
        body = look_alike(number, holes)
        started = process_time_ns()
        decode_pod(body)
        between = process_time_ns()
        cache.read(body)
        known, cold = known + process_time_ns() - between, cold + between - started
    assert cache.hits == 0
    assert known < 2.5 * cold
