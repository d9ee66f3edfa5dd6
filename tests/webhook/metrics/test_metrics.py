"""Metrics of reviews, replicas, watches and the process, and scrapes that do not delay reviews."""

from itertools import count
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.pages.metrics import TABLE, exposed
from tests.webhook.cli.test_hostile_texts import HOSTILE, NEVER
from webhook.app.controller import replica_metrics
from webhook.app.informers import watch_metrics
from webhook.cache.informer import Counters, ListWatch
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.diagnostics.tracker import Tally, TrackedProblems
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.metrics.collector import Metrics, PacedScrapes
from webhook.metrics.observers import ReviewCounts
from webhook.metrics.table import LIVE_READS


def samples(metrics: Metrics) -> dict[str, float]:
    text = metrics.exposition()[0].decode()
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_reviews_are_counted_by_kind_operation_and_verdict() -> None:
    metrics = Metrics("serve")
    counts = ReviewCounts(metrics)
    for verdict in ("patched", "patched", "denied"):
        counts.reviewed("Pod", "CREATE", verdict, 0.001)
    counts.reviewed("Unheard", "PATCH", "allowed", 0.001)
    found = samples(metrics)
    assert found["ray_webhook_admissions_total['CREATE', 'Pod', 'patched']"] == 2
    assert found["ray_webhook_admissions_total['CREATE', 'Pod', 'denied']"] == 1
    assert found["ray_webhook_admissions_total['allowed', 'other', 'other']"] == 1


def test_durations_are_a_histogram_for_each_kind_whose_bounds_are_inclusive() -> None:
    metrics = Metrics("serve")
    counts = ReviewCounts(metrics)
    for seconds, verdict in (
        (0.0001, "patched"),
        (0.0002, "patched"),
        (0.02, "denied"),
        (9.0, "patched"),
    ):
        counts.reviewed("Pod", "CREATE", verdict, seconds)
    found = samples(metrics)
    name = "ray_webhook_admission_duration_seconds"
    bounds = {"0.0001": 1, "0.00025": 2, "0.01": 2, "0.025": 3, "5.0": 3, "+Inf": 4}
    assert {bound: found[f"{name}_bucket{sorted([bound, 'Pod'])}"] for bound in bounds} == bounds
    assert found[f"{name}_count['Pod']"] == 4
    assert round(found[f"{name}_sum['Pod']"], 6) == 9.0203


ANONYMOUS: Any = None
"""The client of a list-watch that does not run."""


def test_a_group_has_a_series_for_each_state_and_one_for_since_when() -> None:
    tally = Tally("team", "llama", "tpu", {"complete": 3, "degraded": 1}, 2, 1000.0)
    whole = Tally("team", "llama", "cpu", {"complete": 1}, 0, None)
    look = TrackedProblems((), (tally, whole), {("team", "llama", "host-missing"): 1})
    metrics = Metrics("controller")
    replica_metrics(metrics, lambda: look)
    found = samples(metrics)
    for state, number in (("complete", 3), ("degraded", 1), ("creating", 0), ("missing", 0)):
        labels = sorted(["team", "llama", "tpu", state])
        assert found[f"ray_webhook_replicas{labels}"] == number
    since = "ray_webhook_replica_incomplete_since_timestamp_seconds"
    (only,) = [name for name in found if name.startswith(since)]
    assert only == f"{since}['llama', 'team', 'tpu']"
    assert found["ray_webhook_pods_without_identity['llama', 'team', 'tpu']"] == 2
    assert found["ray_webhook_problems['host-missing', 'llama', 'team']"] == 1


def test_a_long_name_of_a_group_is_shortened_and_in_one_line() -> None:
    tally = Tally("team", "llama", f"a{HOSTILE}" * 1000, {"complete": 1}, 2, 1000.0)
    metrics = Metrics("controller")
    before = len(metrics.exposition()[0])
    replica_metrics(metrics, lambda: TrackedProblems((), (tally,), {}))
    text = metrics.exposition()[0].decode()
    assert text.count("ax ::add-mask::y") == 6
    assert not [character for character in NEVER if character in text]
    assert len(text) < before + 6 * 400 + 2000


def test_a_watch_is_named_by_its_resource_and_tells_its_age() -> None:
    clusters, members = ClusterIndex(), Membership()
    pods = ListWatch(ANONYMOUS, pods_in(""), PodStore(members))
    pods.synced, pods.contacted_at = True, 40.0
    pods.counters = Counters(lists=1, unreadable=2, errors={"refused": 3})
    unsynced = ListWatch(ANONYMOUS, rayclusters_in("team"), RayClusterStore(clusters))
    watches: list[ListWatch[Any]] = [pods, unsynced]
    metrics = Metrics("serve")
    watch_metrics(metrics, lambda: watches, lambda: 100.0)
    found = samples(metrics)
    assert found["ray_webhook_watch_age_seconds['', 'pods']"] == 60
    assert "ray_webhook_watch_age_seconds['rayclusters', 'team']" not in found
    assert found["ray_webhook_watch_synced['', 'pods']"] == 1
    assert found["ray_webhook_watch_synced['rayclusters', 'team']"] == 0
    assert found["ray_webhook_watch_lists_total['', 'pods']"] == 1
    assert found["ray_webhook_malformed_objects_total['', 'pods']"] == 2
    assert found["ray_webhook_watch_errors_total['', 'pods', 'refused']"] == 3


def test_a_process_tells_of_its_memory_and_its_garbage_collections() -> None:
    found = samples(Metrics("serve"))
    assert found["process_resident_memory_bytes[]"] > 0
    assert "python_gc_collections_total['0']" in found


def test_a_counter_is_read_when_it_is_asked_for() -> None:
    metrics, count = Metrics("serve"), [0]
    metrics.expose(LIVE_READS, lambda: count[0])
    count[0] = 7
    assert samples(metrics)["ray_webhook_live_reads_total[]"] == 7


def test_scrapes_are_made_anew_until_they_are_too_many_and_again_later() -> None:
    numbers, now = count(), [0.0]
    scrapes = PacedScrapes(lambda: (b"%d" % next(numbers), "text"), lambda: now[0])
    assert [scrapes()[0] for _ in range(22)][-3:] == [b"19", b"19", b"19"]
    now[0] = 0.2
    assert [scrapes()[0] for _ in range(2)] == [b"20", b"20"]
    now[0] = 60.0
    assert len({scrapes()[0] for _ in range(30)}) == 20


def test_a_long_exposition_is_followed_by_a_pause_in_which_the_last_one_is_sent_again() -> None:
    numbers, now = count(), [0.0]

    def make() -> tuple[bytes, str]:
        now[0] += 0.5
        return b"%d" % next(numbers), "text"

    scrapes = PacedScrapes(make, lambda: now[0])
    assert [scrapes()[0] for _ in range(3)] == [b"0", b"0", b"0"]
    now[0] = 10.4
    assert scrapes()[0] == b"0"
    now[0] = 10.6
    assert scrapes()[0] == b"1"


def test_every_metric_of_the_table_is_exposed_by_a_process() -> None:
    read = {row for rows in exposed().values() for row in rows}
    assert [row.name for row in TABLE if row not in read] == []
