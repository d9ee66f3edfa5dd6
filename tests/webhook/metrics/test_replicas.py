"""Metrics of replicas, of watches and of the process: label values are names."""

from typing import Any

from tests.webhook.cli.test_hostile_texts import HOSTILE, NEVER
from tests.webhook.metrics.test_metrics import samples
from webhook.app.controller import replica_metrics
from webhook.app.informers import watch_metrics
from webhook.cache.informer import Counters, ListWatch
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.diagnostics.tracker import Tally, TrackedProblems
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.metrics.collector import Metrics
from webhook.metrics.table import LIVE_READS

ANONYMOUS: Any = None
"""The client of a list-watch that does not run."""


def test_a_group_has_a_series_for_each_state_and_one_for_since_when() -> None:
    tally = Tally("team", "llama", "tpu", {"complete": 3, "degraded": 1}, 2, 1000.0)
    whole = Tally("team", "llama", "cpu", {"complete": 1}, 0, None)
    look = TrackedProblems((), (tally, whole), {("team", "llama", "host-missing"): 1})
    metrics = Metrics("controller")
    replica_metrics(metrics, lambda: look)
    found = samples(metrics)
    for state, count in (("complete", 3), ("degraded", 1), ("creating", 0), ("missing", 0)):
        labels = sorted(["team", "llama", "tpu", state])
        assert found[f"ray_webhook_replicas{labels}"] == count
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
