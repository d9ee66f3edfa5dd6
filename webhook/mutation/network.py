"""Network identity: the host name and subdomain under which the other hosts of a replica reach this one."""

from webhook.groups.naming import headless_service, host_name
from webhook.mutation.edit import Edit, SetField, Warn
from webhook.mutation.worker import Worker


def network(worker: Worker) -> list[Edit]:
    """Return host name and subdomain for a host that others must reach, each only if empty.

    KubeRay creates the service `<cluster>-headless` only if some group of the cluster has several hosts.
    """
    if not worker.reached:
        return []
    spec, seat = worker.pod.spec, worker.seat
    edits: list[Edit] = []
    name = host_name(worker.name, seat.replica, seat.host)
    if not spec.hostname:
        edits.append(SetField("hostname", name, "peers find this host by it"))
    elif spec.hostname != name:
        edits.append(Warn(f"spec.hostname is set by hand, but peers look for {name}: remove it from the template"))
    if not spec.subdomain:
        edits.append(SetField("subdomain", headless_service(worker.cluster.name), "KubeRay's headless service resolves it"))
        if not worker.cluster.multi_host:
            edits.append(
                Warn(f"KubeRay creates service {worker.service} only if a group has numOfHosts > 1: create it, or set subdomain")
            )
    return edits
