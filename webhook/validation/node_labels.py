"""Labels of Nodes that Ray is to know."""

from collections.abc import Iterator
from typing import Final

from webhook.groups.annotations import NODE_LABELS, read_pairs
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import warn


def node_label_not_allowed(cluster: Cluster) -> Iterator[Fault]:
    """A label of the Node that the webhook does not pass on.

    Ray nodes come up without it, and placement groups that need it find no node. `ray-webhook
    validate` cannot know.

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
