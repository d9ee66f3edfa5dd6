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
    return Metric("counter", f"ray_webhook_{name}", text, labels)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric("gauge", f"ray_webhook_{name}", text, labels)


_CLUSTER = ("raycluster_namespace", "raycluster")
"""Not `namespace`: that label is the namespace of the scraped process."""
_GROUP = (*_CLUSTER, "group")
_WATCH = ("watch", "watched_namespace")

BUILD_INFO = _gauge(
    "build_info", "Process and version; the value is always 1.", ("process", "version")
)

ADMISSIONS = _counter(
    "admissions",
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
    "denials", "Causes of denials, by kind and Kubernetes cause type.", ("kind", "reason")
)
RULE_DENIALS = _counter(
    "rule_denials",
    "Denied Ray objects, by the rule that refused them; an object may count for several.",
    ("rule",),
)
RULE_WARNINGS = _counter(
    "rule_warnings", "Admitted or denied Ray objects, by the rule that warned of them.", ("rule",)
)
REFUSED_REQUESTS = _counter(
    "refused_requests", "Requests answered with an HTTP error, by status.", ("status",)
)
UNDECIDED_REVIEWS = _counter(
    "undecided_reviews", "Reviews answered with 503 because a reservation or a live read failed."
)
EVICTIONS = _counter(
    "evictions",
    "Reviewed evictions of workers whose group has a disruption budget, by outcome.",
    ("outcome",),
)
CACHE_HITS = _counter("cache_hits", "Lookups that a cache answered.", ("cache",))
CACHE_MISSES = _counter("cache_misses", "Lookups that a cache did not answer.", ("cache",))

CERTIFICATE_EXPIRY = _gauge(
    "certificate_expiry_timestamp_seconds",
    "Time at which the served certificate expires; 0 without a certificate.",
)
CERTIFICATE_LOADS = _gauge("certificate_loads", "Certificates loaded since the start.")
CERTIFICATE_REJECTED = _gauge(
    "certificate_rejected",
    "1 if the newest certificate cannot be used, and an older one, or none, is served.",
)

MEMBERS = _gauge("members", "Worker pods with an identity.")
CLUSTERS = _gauge("clusters", "RayClusters in the cache.")
MALFORMED_IDENTITIES = _counter("malformed_identities", "Worker pods with invalid identity labels.")
LIVE_READS = _counter("live_reads", "Live reads of RayClusters and worker groups.")
LIVE_READ_FAILURES = _counter(
    "live_read_failures", "Failed live reads; their reviews were answered with 503."
)

RESERVATIONS = _counter(
    "reservations", "Requests for a replica index or shard index, by outcome.", ("outcome",)
)
RESERVATION_SECONDS = _counter(
    "reservation_seconds", "Seconds from these requests to their answers."
)
RESERVATION_WRITES = _counter("reservation_writes", "Attempted writes of Leases with reservations.")
RESERVATION_CONFLICTS = _counter(
    "reservation_conflicts", "Writes of these Leases rejected with a conflict (HTTP 409)."
)
RESERVATION_LISTS = _counter("reservation_lists", "Live lists of a group before a reservation.")
RESERVATIONS_UNSEEN = _gauge(
    "reservations_unseen",
    "Reservations of this process, 10 to 60 s old, whose object does not exist.",
)

WATCH_SYNCED = _gauge("watch_synced", "1 when the first list of a watch is complete.", _WATCH)
WATCH_AGE = _gauge(
    "watch_age_seconds",
    "Seconds since the watch last received data; a healthy one is under 90 s.",
    _WATCH,
)
WATCH_LISTS = _counter("watch_lists", "Full lists.", _WATCH)
WATCH_OPENED = _counter("watch_opened", "Watches opened.", _WATCH)
WATCH_EVENTS = _counter("watch_events", "Events received.", _WATCH)
WATCH_ERRORS = _counter("watch_errors", "Failures of lists and watches.", (*_WATCH, "reason"))
MALFORMED_OBJECTS = _counter(
    "malformed_objects", "Objects that could not be decoded; they are treated as deleted.", _WATCH
)

SCHEDULING_ENABLED = _gauge(
    "scheduling_enabled", "1 if `ray-webhook controller` manages PodGroups."
)
SCHEDULING_OBJECTS = _counter(
    "scheduling_objects",
    "Workloads and PodGroups that were created, patched or deleted.",
    ("resource", "verb"),
)
SCHEDULING_FAILURES = _counter(
    "scheduling_failures",
    "Failures to list, create, patch or delete Workloads and PodGroups.",
    ("reason",),
)
SCHEDULING_NAME_CONFLICTS = _gauge(
    "scheduling_name_conflicts",
    "Desired Workloads and PodGroups whose name is in use by another object.",
)
COMPUTE_DOMAINS = _counter(
    "compute_domains", "ComputeDomains that were created, patched or deleted.", ("verb",)
)
COMPUTE_DOMAIN_FAILURES = _counter(
    "compute_domain_failures",
    "Failures to list, create, patch or delete ComputeDomains.",
    ("reason",),
)
LEADER = _gauge("leader", "1 if this process is the leader.")
REPAIR_DELETED_PODS = _counter(
    "repair_deleted_pods", "Pods deleted by repair, by reason.", ("reason",)
)
REPAIR_FAILURES = _counter(
    "repair_failures",
    "Failures to read RayClusters with repair, or to change their pods.",
    ("reason",),
)
REPAIR_WAITING_REPLICAS = _gauge(
    "repair_waiting_replicas", "Broken replicas that are not replaced, by reason.", ("why",)
)
REPLICAS = _gauge(
    "replicas",
    "Replicas by state: complete, creating, degraded, missing.",
    (*_GROUP, "state"),
)
REPLICA_INCOMPLETE_SINCE = _gauge(
    "replica_incomplete_since_timestamp_seconds",
    "Time since when the group has an incomplete replica; absent if all are complete.",
    _GROUP,
)
PODS_WITHOUT_IDENTITY = _gauge(
    "pods_without_identity", "Worker pods that need an identity and have none.", _GROUP
)
PROBLEMS = _gauge(
    "problems",
    "Problems by diagnosis; those of the installation, or of an owner alone, have no RayCluster.",
    (*_CLUSTER, "diagnosis"),
)
EVENTS = _counter("events", "Events written on RayClusters, by reason.", ("reason",))
EVENT_FAILURES = _counter(
    "event_failures", "Failures to write events, or to examine RayClusters.", ("reason",)
)
