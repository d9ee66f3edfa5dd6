"""Opt-ins: the annotations that users set on a RayCluster.

To add an annotation, add its name to `webhook/api/names.py` and a row to `OPT_INS`. The
configuration of a RayCluster, the mutators, the rules and `docs/annotations.md` use that row.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from webhook.accelerators.profiles import NONE as NO_PROFILE
from webhook.accelerators.profiles import PROFILES as BUILT_IN
from webhook.accelerators.profiles import Profiles, check_names
from webhook.api import names
from webhook.api.formats import (
    LABEL_VALUE_ADVICE,
    is_label_value,
    is_qualified_name,
    list_choices,
    shorten,
)
from webhook.api.objects import Strings
from webhook.api.quantity import read_number
from webhook.groups.drain_timeout import SECONDS_MAX, read_seconds
from webhook.groups.identity import MAX_REPLICAS

T = TypeVar("T")

INDEX_LIMIT: Final = 1 << 20
"""Shard indices are less than this number."""


def read_index(text: str) -> int | None:
    """Return a shard index, or None for an invalid text: decimal, without sign or leading zeros,
    less than INDEX_LIMIT.
    """
    return read_number(text, INDEX_LIMIT - 1)


def read_count(text: str) -> int | None:
    """Return the number of shards of a group, or None for an invalid text: the format of an index,
    but from 1 to INDEX_LIMIT.
    """
    return read_number(text, INDEX_LIMIT) or None


def read_budget(text: str) -> int | None:
    """Return how many replicas of a group may be disrupted at once, or None for an invalid text:
    decimal, without sign or leading zeros, up to MAX_REPLICAS.
    """
    return read_number(text, MAX_REPLICAS)


CLUSTER: Final = "cluster"
WORKER_GROUP: Final = "worker-group"
REPLICA: Final = "replica"
GRANULARITIES: Final = (CLUSTER, WORKER_GROUP, REPLICA)
"""Values of the annotations of pod groups and ComputeDomains: which pods share one."""

NONE: Final = "none"
HEADS: Final = "heads"
REPLICAS: Final = "replicas"
ALL: Final = "all"
KEPT: Final = (NONE, HEADS, REPLICAS, ALL)
"""Values of the annotation of pods whose nodes autoscalers leave alone."""

_TEXT_MAX: Final = 8192
"""Characters of a value that is read, which has a list of labels at most."""

RULE: Final = "annotation-value-invalid"
"""The validation rule that reports invalid values."""


class OptIn(Struct, Generic[T], frozen=True):
    """An annotation: its meaning, its valid values and its parser.

    `fault` returns the problem of a value, or an empty text if it is valid with the profiles of the
    settings. `page` is the documentation page.
    """

    annotation: str
    means: str
    values: str
    parse: Callable[[str], T]
    fault: Callable[[T, Profiles], str]
    page: str

    def read(self, annotations: Strings) -> T:
        """Return the parsed value of the annotation, without the spaces around it; an empty value
        counts as absent, and so does one that is too long.
        """
        value = annotations.get(self.annotation, "").strip()
        # Kubernetes allows 256 KiB of annotations, which would be parsed with each event of the
        # RayCluster.
        return self.parse(value if len(value) <= _TEXT_MAX else "")

    def problem(self, text: str, profiles: Profiles = BUILT_IN) -> str:
        """Return the problem of a value and how to fix it, or an empty text."""
        text = text.strip()
        if len(text) > _TEXT_MAX:
            return f"{len(text)} characters: write at most {_TEXT_MAX}"
        return self.fault(self.parse(text), profiles) if text else ""


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


class NodeLabel(Struct, frozen=True, gc=False):
    """A label of the Node, and the label of the Ray node that gets its value."""

    node: str
    ray: str


def read_pairs(chosen: tuple[str, ...]) -> list[NodeLabel]:
    """Return the labels of pairs such as `nvidia.com/gpu.clique=ray.io/gpu-domain`."""
    pairs = [pair.partition("=") for pair in chosen]
    return [
        NodeLabel(key, label)
        for key, _, label in pairs
        if is_qualified_name(key) and is_qualified_name(label)
    ]


def check_reserved_labels(labels: Iterable[str]) -> str:
    """Return why a Ray node cannot start with labels, or an empty text."""
    if names.RAY_LABEL_NODE_ID not in labels:
        return ""
    return f"Ray sets {names.RAY_LABEL_NODE_ID} itself and ends if it is given: remove it"


def _no_pairs(chosen: tuple[str, ...], _: Profiles) -> str:
    wrong = next((pair for pair in chosen if not read_pairs((pair,))), "")
    if wrong:
        return f"{shorten(wrong)!r}: write <node label>=<Ray label>"
    labels = [node_label.ray for node_label in read_pairs(chosen)]
    if why := check_reserved_labels(labels):
        return why
    twice = next((label for label, number in Counter(labels).items() if number > 1), "")
    return f"two node labels become {shorten(twice)}: remove one" if twice else ""


def _unless(valid: Callable[[str], bool], problem: str) -> Callable[[str, Profiles], str]:
    """Return the fault of texts that are not valid: the text, and then the problem."""
    return lambda text, _: "" if valid(text) else f"{shorten(text)!r}{problem}"


_GRANULARITY: Final = _unless(
    GRANULARITIES.__contains__, f" is unknown: write {CLUSTER}, {WORKER_GROUP} or {REPLICA}"
)
_SWITCH: Final = _unless(("true", "false").__contains__, " is unknown: write true, or remove it")


TOPOLOGY_KEY: Final = OptIn(
    names.ANNOTATION_TOPOLOGY_KEY,
    means=(
        "the hosts of a replica stay together within one value of this node label, apart from "
        "others"
    ),
    values="a node label key, such as `nvidia.com/gpu.clique`",
    parse=str,
    fault=_unless(
        is_qualified_name, " is not a node label key, so replicas get no affinity: correct it"
    ),
    page="scheduling.md#placement-of-replicas",
)

PROFILES: Final = OptIn(
    names.ANNOTATION_PROFILES,
    means="variables that frameworks read, beside those of the rendezvous",
    values=(
        f"{', '.join(f'`{profile.name}`' for profile in BUILT_IN)}, comma-separated; or "
        f"`{NO_PROFILE}`"
    ),
    parse=_parse_list,
    fault=check_names,
    page="annotations.md#profiles",
)

SCHEDULING_GROUP: Final = OptIn(
    names.ANNOTATION_SCHEDULING_GROUP,
    means="which pods are scheduled together, all or none",
    values=", ".join(f"`{name}`" for name in GRANULARITIES),
    parse=str,
    fault=_GRANULARITY,
    page="scheduling.md#gang-scheduling",
)

SHARD_GROUP: Final = OptIn(
    names.ANNOTATION_SHARD_GROUP,
    means="the shard group in which this RayCluster gets an index",
    values="a label value",
    parse=str,
    fault=_unless(is_label_value, f": {LABEL_VALUE_ADVICE}"),
    page="shards.md",
)

SHARD_INDEX: Final = OptIn(
    names.ANNOTATION_SHARD_INDEX,
    means="the index within the shard group; the webhook writes it",
    values="a number",
    parse=str,
    fault=_unless(
        lambda text: read_index(text) is not None,
        f" is not a shard index: remove it to get one, or write 0 to {INDEX_LIMIT - 1}",
    ),
    page="shards.md",
)

SHARD_COUNT: Final = OptIn(
    names.ANNOTATION_SHARD_COUNT,
    means="how many shards the shard group has; the index is below it",
    values="a number, the same for all RayClusters of the group",
    parse=str,
    fault=_unless(
        lambda text: read_count(text) is not None,
        f" is not a number of shards: write 1 to {INDEX_LIMIT}",
    ),
    page="shards.md",
)

NODE_LABELS: Final = OptIn(
    names.ANNOTATION_NODE_LABELS,
    means="labels of the Node that become labels of the Ray node",
    values="`<node label>=<Ray label>`, comma-separated",
    parse=_parse_list,
    fault=_no_pairs,
    page="scheduling.md#labels-of-ray-nodes",
)

DRAIN_SECONDS: Final = OptIn(
    names.ANNOTATION_DRAIN_SECONDS,
    means="time that a deleted worker has to finish its tasks",
    values=f"whole seconds, 0 to {SECONDS_MAX}; 0 for not at all",
    parse=str,
    fault=_unless(
        lambda text: read_seconds(text) is not None, f": write whole seconds, 0 to {SECONDS_MAX}"
    ),
    page="lifecycle.md#termination",
)

KEEP_NODES: Final = OptIn(
    names.ANNOTATION_KEEP_NODES,
    means="pods whose nodes the cluster autoscaler and Karpenter do not remove",
    values=", ".join(f"`{name}`" for name in KEPT),
    parse=str,
    fault=_unless(KEPT.__contains__, f" is unknown: write {list_choices(KEPT)}"),
    page="lifecycle.md#nodes",
)

MAX_DISRUPTED: Final = OptIn(
    names.ANNOTATION_MAX_DISRUPTED,
    means="evictions disrupt at most this number of replicas of a worker group at once",
    values=f"a number, 0 to {MAX_REPLICAS}; 0 for no evictions",
    parse=str,
    fault=_unless(
        lambda text: read_budget(text) is not None, f": write a number, 0 to {MAX_REPLICAS}"
    ),
    page="lifecycle.md#evictions",
)

REPAIR: Final = OptIn(
    names.ANNOTATION_REPAIR,
    means="if a multi-host replica loses a host, all its pods are recreated",
    values="`true`",
    parse=str,
    fault=_SWITCH,
    page="lifecycle.md#repair",
)

RESTART: Final = OptIn(
    names.ANNOTATION_RESTART,
    means="what restarts with Ray's container of a multi-host replica",
    values=f"`{names.RESTART_REPLICA}`",
    parse=str,
    fault=_unless(
        names.RESTART_REPLICA.__eq__, f" is unknown: write {names.RESTART_REPLICA}, or remove it"
    ),
    page="lifecycle.md#repair",
)

COMPUTE_DOMAIN: Final = OptIn(
    names.ANNOTATION_COMPUTE_DOMAIN,
    means="which GPU pods share a ComputeDomain, and so their memory over NVLink (IMEX)",
    values=", ".join(f"`{name}`" for name in GRANULARITIES),
    parse=str,
    fault=_GRANULARITY,
    page="scheduling.md#computedomains",
)

REPLICA_LABEL: Final = OptIn(
    names.ANNOTATION_REPLICA_LABEL,
    means="Ray knows replica and host of each worker as labels of its node",
    values="`true`",
    parse=str,
    fault=_SWITCH,
    page="scheduling.md#labels-of-ray-nodes",
)

OPT_INS: Final[tuple[OptIn[Any], ...]] = (
    TOPOLOGY_KEY,
    PROFILES,
    SCHEDULING_GROUP,
    SHARD_GROUP,
    SHARD_INDEX,
    SHARD_COUNT,
    DRAIN_SECONDS,
    MAX_DISRUPTED,
    COMPUTE_DOMAIN,
    NODE_LABELS,
    REPLICA_LABEL,
    KEEP_NODES,
    REPAIR,
    RESTART,
)

ANNOTATIONS: Final = tuple(row.annotation for row in OPT_INS)
"""The annotations with the prefix of this webhook that users may set on Ray objects."""
