"""Rules of Node labels that the webhook copies to Ray nodes."""

from collections.abc import Iterator
from typing import Final

from webhook.groups.annotations import NODE_LABELS, read_pairs
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import warn


def node_label_not_allowed(cluster: Cluster) -> Iterator[Fault]:
    """A Node label that the webhook is not configured to copy.

    Ray nodes start without the label, and placement groups that need it find no node. `ray-webhook
    validate` does not check this.

    https://docs.ray.io/en/latest/ray-core/scheduling/labels.html
    """
    allowed = cluster.settings.node_labels
    for each in read_pairs(NODE_LABELS.read(cluster.annotations)):
        if allowed is not None and each.node_label not in allowed:
            yield Fault(
                cluster.annotation(NODE_LABELS.annotation),
                f"{each.node_label[:40]} is not passed on: add it to the webhook's node labels",
            )


LOCALITY: Final = (warn(node_label_not_allowed),)
