"""Network identity: the host name and subdomain under which the other hosts of a replica reach this
one.
"""

from webhook.groups.naming import headless_service
from webhook.mutation.edit import Edit, SetField, Warn
from webhook.mutation.worker import Replica, Worker


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the subdomain, if it is empty.

    KubeRay creates the service `<cluster>-headless` only if some group of the cluster has several
    hosts.
    """
    if not replica.needs_names or replica.pod.spec.subdomain:
        return []
    edits: list[Edit] = [
        SetField(
            "subdomain",
            headless_service(replica.cluster.name),
            "KubeRay's headless service resolves it",
        )
    ]
    if not replica.cluster.multi_host:
        text = (
            f"KubeRay creates service {replica.service} only if a group has numOfHosts > 1: "
            "create it, or set subdomain"
        )
        edits.append(Warn(text))
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
