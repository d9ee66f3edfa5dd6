"""An update of a cluster, as the rules about updates see it: both versions, and who makes it."""

from collections.abc import Iterator

from msgspec import Struct

from webhook.validation.change import RECREATE
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.ray_object import RayObject


class Update(Struct):
    """The two versions of a cluster, alone or in a RayService."""

    old: Cluster
    new: Cluster
    service: Field | None

    @property
    def standalone(self) -> bool:
        """Tell whether people edit this RayCluster themselves, and its pods run."""
        return not self.new.owner and not _suspended(self.old) and not _suspended(self.new)

    @property
    def recreates(self) -> bool:
        """Tell whether KubeRay recreates all pods when the spec changes."""
        return (self.new.field / "upgradeStrategy" / "type").text == RECREATE

    def pairs(self) -> Iterator[tuple[Group, Group]]:
        """Yield the groups that both versions have, by name."""
        before = {group.name: group for group in reversed(self.old.groups)}
        return ((before[group.name], group) for group in self.new.groups if group.name in before)


def read_update(old: RayObject, new: RayObject) -> Update | None:
    """Return the view of an update, or None where none of these rules applies: a job's cluster does
    not follow its RayJob.
    """
    if old.cluster is None or new.cluster is None or new.job is not None:
        return None
    return Update(old.cluster, new.cluster, new.service.field if new.service else None)


def _suspended(cluster: Cluster) -> bool:
    return (cluster.field / "suspend").flag
