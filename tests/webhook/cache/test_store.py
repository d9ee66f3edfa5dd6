"""The store: updates in any order give the correct state."""

from collections import deque
from collections.abc import Iterator
from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.growth.containers import containers
from webhook.cache.store import Store


class Meta(Struct, frozen=True):
    """Metadata."""

    uid: str
    resource_version: str


class Pod(Struct, frozen=True):
    """An object of a scope; without a value, nothing is kept of it."""

    metadata: Meta
    scope: str
    value: str | None


Value = tuple[str, str]
PodStore = Store[Pod, str, Value]


class Kept(dict[str, Value]):
    """What is kept, by uid."""

    def put(self, uid: str, value: Value) -> None:
        self[uid] = value

    def remove(self, uid: str) -> None:
        self.pop(uid, None)


def a_pod(uid: str, version: int, scope: str, value: str | None = "identity") -> Pod:
    return Pod(Meta(uid, str(version)), scope, value)


def drain(*reads: Iterator[None]) -> None:
    """Handle the rest of live reads."""
    for read in reads:
        deque(read, 0)


def over(kept: Kept) -> PodStore:
    """Return a store of what it keeps in `kept`."""
    return Store(kept, lambda pod, _: (pod.scope, pod.value) if pod.value else None, itemgetter(0))


def listed(kept: Kept, *pods: Pod, at: int = 10) -> PodStore:
    store = over(kept)
    store.begin(at)
    for pod in pods:
        store.item(pod)
    store.end()
    return store


def test_an_older_event_does_not_bring_back_what_a_live_read_did_not_show() -> None:
    kept = Kept()
    store = listed(kept, a_pod("a", 5, "group"))
    drain(store.read("group", [], 20))
    store.put(a_pod("a", 12, "group"))
    assert kept == {}


def test_of_two_live_reads_the_later_counts_whichever_comes_first() -> None:
    kept = Kept()
    store = listed(kept)
    drain(store.read("group", [], 20))
    drain(store.read("group", [a_pod("a", 12, "group")], 15))
    assert kept == {}


def test_reviews_are_answered_between_the_removals_of_a_live_read() -> None:
    kept = Kept()
    store = listed(kept, a_pod("a", 5, "group"), a_pod("b", 6, "group"))
    read = store.read("group", [], 20)
    next(read)
    store.put(a_pod("c", 12, "group"))  # older than the read, which did not show it
    assert len(kept) == 1
    drain(read)
    assert kept == {}


def test_an_object_without_its_value_is_gone_and_no_older_read_brings_it_back() -> None:
    kept = Kept()
    store = listed(kept, a_pod("a", 5, "group"))
    store.begin(20)
    store.item(a_pod("a", 18, "group", None))
    drain(store.read("group", [a_pod("a", 15, "group")], 16))
    assert store.end() == 0
    assert kept == {}


def test_a_store_that_was_set_back_is_believed() -> None:
    kept = Kept()
    store = listed(kept, a_pod("a", 90, "group", "old"), a_pod("b", 91, "group", "old"), at=100)
    drain(
        store.read("group", [a_pod("a", 90, "group", "old"), a_pod("b", 91, "group", "old")], 120)
    )
    store.begin(8)
    store.item(a_pod("a", 7, "group", "new"))
    assert store.end() == 1
    store.put(a_pod("c", 9, "group", "new"))
    assert kept == {"a": ("group", "new"), "c": ("group", "new")}


@pytest.mark.parametrize("scopes", [1, 1_000_000])
def test_live_reads_while_the_watch_is_silent_are_bounded(scopes: int) -> None:
    store = listed(Kept(), at=10)
    for number in range(20_000):
        scope = f"scope-{number % scopes}"
        drain(store.read(scope, [a_pod("uid", number + 11, scope)], number + 11))
        store.remove("uid")
    entries = sum(each.entries for each in containers(store).values() if "Store" in each.path)
    assert entries < 15_000


def test_a_list_of_one_namespace_removes_nothing_of_another() -> None:
    kept = Kept()
    kept.put("b", ("other", "identity"))
    store = Store[Pod, str, Value](
        kept,
        lambda pod, _: (pod.scope, "identity"),
        itemgetter(0),
        lambda value: value[0] == "group",
    )
    for count, pods in ((1, [a_pod("a", 5, "group")]), (0, [])):
        store.begin(10)
        for pod in pods:
            store.item(pod)
        store.end()
        assert len(store) == count
        assert ("a" in kept, "b" in kept) == (bool(count), True)


def state_at(history: list[Pod], version: int) -> dict[str, Pod]:
    """Return what the API server shows at a version. A deletion is a pod of the scope `gone`."""
    shown: dict[str, Pod] = {}
    for pod in history[:version]:
        if pod.scope == "gone":
            shown.pop(pod.metadata.uid, None)
        else:
            shown[pod.metadata.uid] = pod
    return shown


@st.composite
def histories(draw: st.DrawFn) -> list[Pod]:
    """Return what happened, the pod at index i having version i + 1: pods come, change, move,
    lose their identity, and go for good.
    """
    history: list[Pod] = []
    alive: dict[str, str] = {}
    for version in range(1, draw(st.integers(1, 25)) + 1):
        if alive and draw(st.sampled_from(["old", "new"])) == "old":
            uid = draw(st.sampled_from(sorted(alive)))
            value = draw(st.sampled_from(["gone", "", "identity-1", "identity-2"]))
            alive[uid] = draw(st.sampled_from([alive[uid], "g1", "g2"]))
        else:
            uid, value = f"pod-{version}", "identity-0"
            alive[uid] = draw(st.sampled_from(["g1", "g2"]))
        scope = alive.pop(uid) if value == "gone" else alive[uid]
        history.append(a_pod(uid, version, "gone" if value == "gone" else scope, value or None))
    return history


@settings(max_examples=300)
@given(histories(), st.data())
def test_lists_watches_reads_in_any_order_agree(history: list[Pod], data: st.DataObject) -> None:
    """The API server is ahead of the watch: a read is answered at one time and received later, and
    other changes are handled between its objects.
    """
    last = len(history)
    kept = Kept()
    store = over(kept)
    under_way: list[tuple[str, int]] = []
    reads: list[Iterator[None]] = []
    watched = 0
    listed: list[Pod] | None = None
    for _ in range(data.draw(st.integers(0, 30))):
        steps = ["watch", "watch", "list", "page", "ask", "answer", "read", "read"]
        step = data.draw(st.sampled_from(steps))
        if step == "watch" and listed is None and 0 < watched < last:
            deliver(store, history[watched])
            watched += 1
        elif step == "list" and listed is None:
            watched = data.draw(st.integers(max(watched, 1), last))
            store.begin(watched)
            listed = list(state_at(history, watched).values())
        elif step == "page" and listed is not None:
            listed = page(store, listed)
        elif step == "ask":
            under_way.append((
                data.draw(st.sampled_from(["g1", "g2"])),
                data.draw(st.integers(max(watched, 1), last))))  # fmt: skip
        elif step == "answer" and under_way:
            scope, version = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            pods = [pod for pod in state_at(history, version).values() if pod.scope == scope]
            reads.append(store.read(scope, pods, version))
        elif step == "read" and reads:
            next(data.draw(st.sampled_from(reads)), None)
    drain(*data.draw(st.sampled_from([[], reads])))
    while listed is not None:
        listed = page(store, listed)
    for pod in history[watched:]:
        deliver(store, pod)
    drain(*reads)
    truth = {
        uid: (pod.scope, pod.value) for uid, pod in state_at(history, last).items() if pod.value
    }
    assert kept == truth
    assert len(store) == len(truth)


def page(store: PodStore, listed: list[Pod]) -> list[Pod] | None:
    if listed:
        store.item(listed[0])
        return listed[1:]
    store.end()
    return None


def deliver(store: PodStore, pod: Pod) -> None:
    if pod.scope == "gone":
        store.remove(pod.metadata.uid)
    else:
        store.put(pod)
    store.reach(int(pod.metadata.resource_version))
