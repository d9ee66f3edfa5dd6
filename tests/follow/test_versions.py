"""The ledger: knowledge that arrives out of order adds up to the truth."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.follow.versions import Record, VersionTracker

PodRecord = Record[str, str]


@dataclass
class Store:
    """A target that remembers, and complains of what it is not told in order."""

    values: dict[str, tuple[str, str]] = field(default_factory=dict)

    def put(self, uid: str, scope: str, value: str, version: int) -> None:
        """Set a value."""
        del version
        self.values[uid] = (scope, value)

    def remove(self, uid: str, scope: str) -> None:
        """Forget a value."""
        assert self.values.pop(uid)[0] == scope


def ledger_of(store: Store, *records: PodRecord, at: int = 10) -> VersionTracker[str, str]:
    tracker = VersionTracker(store)
    tracker.begin(at)
    for record in records:
        tracker.item(record)
    tracker.end()
    return tracker


def test_an_older_event_does_not_bring_back_what_a_live_read_did_not_show() -> None:
    store = Store()
    tracker = ledger_of(store, Record("a", 5, "group", "seat"))
    tracker.read("group", [], 20)
    tracker.see(Record("a", 12, "group", "seat"))
    assert store.values == {}


def test_a_live_read_does_not_bring_back_what_the_watch_has_removed_since() -> None:
    store = Store()
    tracker = ledger_of(store, Record("a", 5, "group", "seat"))
    tracker.lose("a")
    tracker.reach(13)
    tracker.read("group", [Record("a", 5, "group", "seat")], 12)
    assert store.values == {}


def test_a_live_read_does_not_remove_what_was_created_after_it() -> None:
    store = Store()
    tracker = ledger_of(store)
    tracker.see(Record("a", 15, "group", "seat"))
    tracker.read("group", [], 14)
    assert store.values == {"a": ("group", "seat")}


def test_of_two_live_reads_the_later_counts_whichever_comes_first() -> None:
    store = Store()
    tracker = ledger_of(store)
    tracker.read("group", [], 20)
    tracker.read("group", [Record("a", 12, "group", "seat")], 15)
    assert store.values == {}


def test_a_live_read_of_one_group_says_nothing_of_another() -> None:
    store = Store()
    tracker = ledger_of(store, Record("a", 5, "group", "seat"), Record("b", 6, "other", "seat"))
    tracker.read("group", [], 20)
    assert list(store.values) == ["b"]


def test_an_object_without_its_value_is_gone_and_no_older_read_brings_it_back() -> None:
    store = Store()
    tracker = ledger_of(store, Record("a", 5, "group", "seat"))
    tracker.begin(20)
    tracker.item(Record("a", 18, "group", None))
    tracker.read("group", [Record("a", 15, "group", "seat")], 16)
    assert tracker.end() == 0
    assert store.values == {}


def test_a_store_that_was_set_back_is_believed() -> None:
    store = Store()
    tracker = ledger_of(
        store, Record("a", 90, "group", "old"), Record("b", 91, "group", "old"), at=100
    )
    tracker.read("group", [Record("a", 90, "group", "old"), Record("b", 91, "group", "old")], 120)
    tracker.begin(8)
    tracker.item(Record("a", 7, "group", "new"))
    assert tracker.end() == 1
    tracker.see(Record("c", 9, "group", "new"))
    assert store.values == {"a": ("group", "new"), "c": ("group", "new")}


def test_an_object_that_moves_to_another_group_is_held_once() -> None:
    store = Store()
    tracker = ledger_of(store, Record("a", 5, "group", "seat"))
    tracker.see(Record("a", 12, "other", "seat"))
    assert store.values == {"a": ("other", "seat")}
    assert len(tracker) == 1


def state_at(history: list[PodRecord], version: int) -> dict[str, PodRecord]:
    """Return what the API server shows at a version. A deletion is a record of the scope `gone`."""
    shown: dict[str, PodRecord] = {}
    for record in history[:version]:
        if record.scope == "gone":
            shown.pop(record.uid, None)
        else:
            shown[record.uid] = record
    return shown


@st.composite
def histories(draw: st.DrawFn) -> list[PodRecord]:
    """Return what happened, the record at index i having version i + 1: pods come, change, lose
    their seat, and go for good.
    """
    history: list[PodRecord] = []
    alive: dict[str, str] = {}
    for version in range(1, draw(st.integers(1, 25)) + 1):
        if alive and draw(st.sampled_from(["old", "new"])) == "old":
            uid = draw(st.sampled_from(sorted(alive)))
            value = draw(st.sampled_from(["gone", "", "seat-1", "seat-2"]))
        else:
            uid, value = f"pod-{version}", "seat-0"
            alive[uid] = draw(st.sampled_from(["g1", "g2"]))
        scope = alive.pop(uid) if value == "gone" else alive[uid]
        history.append(Record(uid, version, "gone" if value == "gone" else scope, value or None))
    return history


@settings(max_examples=300)
@given(histories(), st.data())
def test_lists_watches_and_late_live_reads_in_any_order_end_in_the_truth(
    history: list[PodRecord], data: st.DataObject
) -> None:
    """The API server is ahead of what we are told: a read is taken at one time, and taken in at a
    later one.
    """
    last = len(history)
    store = Store()
    tracker = VersionTracker(store)
    under_way: list[tuple[str, int]] = []
    watched = 0
    listed: list[PodRecord] | None = None
    for _ in range(data.draw(st.integers(0, 30))):
        step = data.draw(st.sampled_from(["watch", "watch", "list", "page", "ask", "answer"]))
        if step == "watch" and listed is None and 0 < watched < last:
            deliver(tracker, history[watched])
            watched += 1
        elif step == "list" and listed is None:
            watched = data.draw(st.integers(max(watched, 1), last))
            tracker.begin(watched)
            listed = list(state_at(history, watched).values())
        elif step == "page" and listed is not None:
            listed = page(tracker, listed)
        elif step == "ask":
            under_way.append(
                (
                    data.draw(st.sampled_from(["g1", "g2"])),
                    data.draw(st.integers(max(watched, 1), last)),
                )
            )
        elif step == "answer" and under_way:
            scope, version = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            tracker.read(
                scope,
                [record for record in state_at(history, version).values() if record.scope == scope],
                version,
            )
    while listed is not None:
        listed = page(tracker, listed)
    for record in history[watched:]:
        deliver(tracker, record)
    truth = {
        uid: (record.scope, record.value)
        for uid, record in state_at(history, last).items()
        if record.value
    }
    assert store.values == truth
    assert len(tracker) == len(truth)


def page(tracker: VersionTracker[str, str], listed: list[PodRecord]) -> list[PodRecord] | None:
    """Deliver one item of a list, or its end."""
    if listed:
        tracker.item(listed[0])
        return listed[1:]
    tracker.end()
    return None


def deliver(tracker: VersionTracker[str, str], record: PodRecord) -> None:
    """Deliver one event of the watch."""
    if record.scope == "gone":
        tracker.lose(record.uid)
    else:
        tracker.see(record)
    tracker.reach(record.version)
