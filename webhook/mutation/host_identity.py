"""The identity of a pod: labels of an assigned one, equal to KubeRay's, so that a later KubeRay
release adopts the pod; and the host name by which the other hosts of a replica reach it.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
(`DefaultWorkerPodTemplate`)
"""

from webhook.api import names
from webhook.api.formats import LABEL_VALUE_MAX
from webhook.groups.naming import host_name, long_nodename, slice_name
from webhook.mutation.edit import Edit, SetAnnotation, SetField, SetLabel, Warn
from webhook.mutation.ray_pod import Replica, Worker


def replica_labels(replica: Replica) -> list[Edit]:
    """Return the labels of the replica: index, and name if it has several hosts; none if the pod
    carries its identity.
    """
    if not replica.holder:
        return []
    edits: list[Edit] = [
        SetLabel(names.LABEL_REPLICA_INDEX, str(replica.index), "the assigned replica index")
    ]
    if replica.hosts > 1:
        repaired = replica.cluster.repair or replica.cluster.restart
        if repaired and names.ANNOTATION_IDENTITY not in replica.pod.annotations:
            # The labels are equal to those of KubeRay.
            why = "the identity is not of KubeRay"
            edits.append(SetAnnotation(names.ANNOTATION_IDENTITY, names.IDENTITY_ASSIGNED, why))
        edits.append(SetLabel(names.LABEL_REPLICA_NAME, replica.name, "the replica's name"))
    if replica.chips and names.LABEL_LEGACY_REPLICA_INDEX not in replica.pod.labels:
        key, value = names.LABEL_LEGACY_REPLICA_INDEX, slice_name(replica.group_name, replica.index)
        if len(value) > LABEL_VALUE_MAX:
            edits.append(Warn(f"label {key} left out: the group name is too long for it"))
        else:
            edits.append(SetLabel(key, value, "Ray's first autoscaler deletes a slice by it"))
    return edits


def host_labels(worker: Worker) -> list[Edit]:
    """Return the holder of the reservation of an assigned identity, and the host index in a
    multi-host group.
    """
    replica = worker.replica
    if not replica.holder:
        return []
    edits: list[Edit] = [
        SetAnnotation(names.ANNOTATION_HOLDER, replica.holder, "the holder of its reservation")
    ]
    if replica.hosts > 1:
        index = str(worker.host)
        edits.append(SetLabel(names.LABEL_HOST_INDEX, index, "the assigned host index"))
    return edits


def subdomain(replica: Replica) -> list[Edit]:
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
    # The user's own Service: the addresses of the hosts contain it.
    if replica.pod.spec.subdomain:
        return edits
    why = "KubeRay's headless service resolves it"
    edits.append(SetField("subdomain", replica.service, why))
    if replica.hosts == 1 and not replica.cluster.multi_host:
        message = (
            f"service {replica.service} is needed, and KubeRay creates none without numOfHosts"
        )
        edits.append(Warn(f"{message} > 1: create it"))
    return edits


def hostname(worker: Worker) -> list[Edit]:
    """Return the host name, if it is empty."""
    if not worker.replica.needs_names:
        return []
    name, present = worker.host_name, worker.replica.pod.spec.hostname
    if not present:
        return [SetField("hostname", name, "host name that peers resolve")]
    if present == name:
        return []
    problem = f"spec.hostname is set by hand, but peers look for {name}"
    return [Warn(f"{problem}: remove it from the template")]
