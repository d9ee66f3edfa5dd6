"""Resize policy: the Ray container is resized in place, without a restart. The policy can be set
only at creation of a pod.

https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
"""

from typing import Final

from webhook.mutation.edit import AppendResizeRule, Edit, Warn
from webhook.mutation.ray_pod import Replica

_RESOURCES: Final = ("cpu", "memory")
_RESTART: Final = "RestartContainer"


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the missing entries of Ray's container, if `ray.io/ippr` lists its group or the
    setting is all.

    Entries of the user are kept. Kubernetes rejects a restart policy for a pod with `restartPolicy:
    Never`, and Ray rejects it for any resize.
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
