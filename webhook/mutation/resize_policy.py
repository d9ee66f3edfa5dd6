"""Resize policy: the Ray container grows in place, without a restart; only a pod's creation can say
so.

https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
"""

from typing import Final

from webhook.mutation.edit import AppendResizeRule, Edit, Warn
from webhook.mutation.ray_pod import Replica

_RESOURCES: Final = ("cpu", "memory")
_RESTART: Final = "RestartContainer"


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the entries that Ray's container lacks, when its group is listed in `ray.io/ippr`
    or the policy says all.

    An entry of the user stays. Kubernetes refuses a restart where the pod has `restartPolicy:
    Never`, Ray wherever it resizes.
    """
    listed = replica.group_name in replica.cluster.resizable
    scope = replica.policy.resize
    if not replica.pod.spec.containers or scope == "none" or not (listed or scope == "all"):
        return []
    rules = {rule.resource_name: rule.restart_policy for rule in replica.ray.resize_policy or ()}
    edits: list[Edit] = []
    for resource in _RESOURCES:
        found = rules.get(resource)
        if found is None:
            edits.append(
                AppendResizeRule(
                    replica.slots[replica.ray_slot].path,
                    resource,
                    "Ray resizes it in place" if listed else "it can be resized in place",
                )
            )
        elif found == _RESTART and replica.pod.spec.restart_policy == "Never":
            edits.append(
                Warn(
                    f"resizePolicy {resource}: {_RESTART} cannot be with restartPolicy Never: "
                    "remove it from the template"
                )
            )
        elif found == _RESTART and listed:
            edits.append(
                Warn(
                    f"resizePolicy {resource}: Ray resizes nothing with {_RESTART}: remove it "
                    "from the template"
                )
            )
    return edits
