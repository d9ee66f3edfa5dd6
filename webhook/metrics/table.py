"""The table of all metrics that a process exposes."""

from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A row of the table. The name is without the suffixes of its kind, such as `_total`. Labels
    have few values, whatever clients send.
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    text: str
    labels: tuple[str, ...] = ()


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric("counter", name, text, labels)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric("gauge", name, text, labels)


_CLUSTER = ("raycluster_namespace", "raycluster")
"""Not `namespace`: that label is the namespace of the scraped process."""
_GROUP = (*_CLUSTER, "group")
_WATCH = ("watch", "watched_namespace")

BUILD_INFO = _gauge(
    "ray_webhook_build_info", "The process and version that runs.", ("process", "version")
)

ADMISSIONS = _counter(
    "ray_webhook_admissions",
    "Reviews answered, by kind, operation and verdict (allowed, patched, denied).",
    ("kind", "operation", "verdict"),
)
ADMISSION_DURATION = Metric(
    "histogram",
    "ray_webhook_admission_duration_seconds",
    "Time from the first byte of a review to the last byte of its answer.",
    ("kind",),
)
DENIALS = _counter(
    "ray_webhook_denials",
    "Causes of denials, by kind and Kubernetes cause type.",
    ("kind", "reason"),
)
RULE_DENIALS = _counter(
    "ray_webhook_rule_denials",
    "Denied Ray objects, by the rule that refused them; an object may count for several.",
    ("rule",),
)
RULE_WARNINGS = _counter(
    "ray_webhook_rule_warnings",
    "Admitted or denied Ray objects, by the rule that warned of them.",
    ("rule",),
)
REFUSED_REQUESTS = _counter(
    "ray_webhook_refused_requests",
    "Requests that got an HTTP error in place of a review, by status.",
    ("status",),
)
UNDECIDED_REVIEWS = _counter(
    "ray_webhook_undecided_reviews",
    "Reviews answered with 503 because no identity could be reserved, or nothing read live.",
)
CACHE_HITS = _counter("ray_webhook_cache_hits", "Look-ups that a cache answered.", ("cache",))
CACHE_MISSES = _counter(
    "ray_webhook_cache_misses", "Look-ups that a cache did not answer.", ("cache",)
)

CERTIFICATE_EXPIRY = _gauge(
    "ray_webhook_certificate_expiry_timestamp_seconds",
    "When the served certificate expires; 0 without one.",
)
CERTIFICATE_LOADS = _gauge(
    "ray_webhook_certificate_loads", "Certificates taken into service since the start."
)
CERTIFICATE_REJECTED = _gauge(
    "ray_webhook_certificate_rejected",
    "1 while the newest certificate cannot be used and an older one, or none, is served.",
)

MEMBERS = _gauge("ray_webhook_members", "Worker pods that hold a seat.")
CLUSTERS = _gauge("ray_webhook_clusters", "RayClusters that are known.")
MALFORMED_SEATS = _counter(
    "ray_webhook_malformed_seats", "Worker pods whose seat labels are invalid."
)
LIVE_READS = _counter(
    "ray_webhook_live_reads", "Live reads of RayClusters and groups that were begun."
)
LIVE_READ_FAILURES = _counter(
    "ray_webhook_live_read_failures", "Live reads that failed; the review was answered with 503."
)

RESERVATIONS = _counter(
    "ray_webhook_reservations",
    "Requests for a replica index or shard index, by outcome.",
    ("outcome",),
)
RESERVATION_SECONDS = _counter(
    "ray_webhook_reservation_seconds", "Seconds from these requests to their answers."
)
RESERVATION_WRITES = _counter(
    "ray_webhook_reservation_writes", "Writes of Leases with reservations that were tried."
)
RESERVATION_CONFLICTS = _counter(
    "ray_webhook_reservation_conflicts",
    "Writes of these Leases that were rejected with a conflict (HTTP 409).",
)
RESERVATION_LISTS = _counter(
    "ray_webhook_reservation_lists", "Live lists of a group before a reservation."
)
RESERVATIONS_UNSEEN = _gauge(
    "ray_webhook_reservations_unseen",
    "Reservations that this process made 10 to 60 s ago and whose object has not appeared.",
)

WATCH_SYNCED = _gauge(
    "ray_webhook_watch_synced", "1 when the first list of a watch is complete.", _WATCH
)
WATCH_AGE = _gauge(
    "ray_webhook_watch_age_seconds",
    "Seconds since the watch last received data; a healthy one is under 90 s.",
    _WATCH,
)
WATCH_LISTS = _counter("ray_webhook_watch_lists", "Full lists begun.", _WATCH)
WATCH_OPENED = _counter("ray_webhook_watch_opened", "Watches opened.", _WATCH)
WATCH_EVENTS = _counter("ray_webhook_watch_events", "Events taken in.", _WATCH)
WATCH_ERRORS = _counter(
    "ray_webhook_watch_errors", "Failures of lists and watches.", (*_WATCH, "reason")
)
MALFORMED_OBJECTS = _counter(
    "ray_webhook_malformed_objects",
    "Objects that were not of the shape that their kind has; they count as gone.",
    _WATCH,
)

SCHEDULING_KEPT = _gauge(
    "ray_webhook_scheduling_kept", "1 when PodGroups are kept, by `ray-webhook controller`."
)
SCHEDULING_OBJECTS = _counter(
    "ray_webhook_scheduling_objects",
    "Workloads and PodGroups that were created, patched or deleted.",
    ("resource", "verb"),
)
SCHEDULING_FAILURES = _counter(
    "ray_webhook_scheduling_failures",
    "Failures to list, create, patch or delete Workloads and PodGroups.",
    ("reason",),
)
SCHEDULING_TAKEN_NAMES = _gauge(
    "ray_webhook_scheduling_taken_names",
    "Workloads and PodGroups that are wanted, but whose name another object has.",
)
COMPUTE_DOMAINS = _counter(
    "ray_webhook_compute_domains",
    "ComputeDomains that were created, patched or deleted.",
    ("verb",),
)
COMPUTE_DOMAIN_FAILURES = _counter(
    "ray_webhook_compute_domain_failures",
    "Failures to list, create, patch or delete ComputeDomains.",
    ("reason",),
)
LEADER = _gauge("ray_webhook_leader", "1 while this process leads, so that it writes.")
REPAIR_DELETED_PODS = _counter(
    "ray_webhook_repair_deleted_pods",
    "Pods that were deleted so that their replica is replaced whole.",
    ("reason",),
)
REPAIR_FAILURES = _counter(
    "ray_webhook_repair_failures",
    "Failures to look at RayClusters that ask for repair, or to change their pods.",
    ("reason",),
)
REPAIR_WAITING_REPLICAS = _gauge(
    "ray_webhook_repair_waiting_replicas",
    "Broken replicas that are left as they are, for now.",
    ("why",),
)
REPLICAS = _gauge(
    "ray_webhook_replicas",
    "Replicas by state: complete, coming, waits (something is wrong), missing.",
    (*_GROUP, "state"),
)
REPLICA_INCOMPLETE_SINCE = _gauge(
    "ray_webhook_replica_incomplete_since_timestamp_seconds",
    "Since when the group has had a replica that is not complete; none when all are.",
    _GROUP,
)
PODS_WITHOUT_SEAT = _gauge(
    "ray_webhook_pods_without_seat", "Worker pods without a seat that need one.", _GROUP
)
PROBLEMS = _gauge(
    "ray_webhook_problems",
    "What is wrong, by diagnosis; that of no RayCluster has neither namespace nor name.",
    (*_CLUSTER, "diagnosis"),
)
EVENTS = _counter("ray_webhook_events", "Events written on RayClusters, by reason.", ("reason",))
EVENT_FAILURES = _counter(
    "ray_webhook_event_failures",
    "Events that could not be written, and RayClusters that could not be looked at.",
    ("reason",),
)

DASHBOARD_CLUSTERS = _gauge("ray_webhook_clusters", "RayClusters known.")
DASHBOARD_PODS = _gauge("ray_webhook_pods", "Pods of Ray known.")
DASHBOARD_LOOKS = _gauge("ray_webhook_dashboard_looks", "Looks at changes.")
DASHBOARD_SECONDS = _gauge("ray_webhook_dashboard_seconds", "CPU of these.")
DASHBOARD_MEMOIZED = _gauge("ray_webhook_dashboard_remembered", "Replicas remembered.")
DASHBOARD_WORKED_OUT = _gauge("ray_webhook_dashboard_worked_out", "Replicas examined again.")
DASHBOARD_FAILURES = _counter(
    "ray_webhook_dashboard_failures",
    "Times a RayCluster, or the installation, could not be looked at.",
    ("reason",),
)
