"""Network identity: the host name and subdomain by which the other hosts of a replica reach a
pod.
"""

from webhook.groups.naming import headless_service, host_name, long_nodename
from webhook.mutation.edit import Edit, SetField, Warn
from webhook.mutation.ray_pod import Replica, Worker


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the subdomain, if it is empty, and a warning for host names that are invalid for pods.

    KubeRay creates the service `<cluster>-headless` only if the cluster has a multi-host group.
    """
    if not replica.needs_names:
        return []
    edits: list[Edit] = []
    if replica.pod.spec.set_hostname_as_fqdn:
        last = host_name(replica.group_name, replica.index, replica.hosts - 1)
        problem = long_nodename(last, replica.service, replica.cluster.namespace)
        edits += [Warn(f"setHostnameAsFQDN: {problem}")] if problem else []
    if replica.pod.spec.subdomain:
        return edits
    edits.append(
        SetField(
            "subdomain",
            headless_service(replica.cluster.name),
            "KubeRay's headless service resolves it",
        )
    )
    if not replica.cluster.multi_host and not replica.policy.services:
        text = f"service {replica.service} is needed, and KubeRay creates none without numOfHosts"
        edits.append(Warn(f"{text} > 1: see installation.components"))
    return edits


def host_edits(worker: Worker) -> list[Edit]:
    """Return the host name, if it is empty."""
    if not worker.replica.needs_names:
        return []
    name, present = worker.host_name, worker.replica.pod.spec.hostname
    if not present:
        return [SetField("hostname", name, "peers find this host by it")]
    if present != name:
        return [
            Warn(
                f"spec.hostname is set by hand, but peers look for {name}: remove it from the "
                "template"
            )
        ]
    return []
