"""The examination: every diagnosis over everything that stands, in one picture."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import structs

from webhook.status import model
from webhook.status.clusters import CLUSTER
from webhook.status.diagnosis import ERROR, Diagnosis, Trouble, counts
from webhook.status.expected import Expected
from webhook.status.installation import INSTALLATION
from webhook.status.objects import LivePod
from webhook.status.observed import Lookups, Observed
from webhook.status.pods import PODS, parties
from webhook.status.replicas import GROUP, REPLICA, TOLD
from webhook.status.standing import Cluster, Group, Replica, stand

T = TypeVar("T")

DIAGNOSES: Final[tuple[Diagnosis[Any], ...]] = (*INSTALLATION, *CLUSTER, *GROUP, *REPLICA, *TOLD, *PODS)

_NOTHING: Final[Mapping[str, str]] = {}


def examine(observed: Observed, now: float, unread: Mapping[str, str] = _NOTHING) -> model.Picture:
    """Return the picture at `now`, in seconds since the epoch.

    `unread` says what could not be read, and why.
    """
    lookups = Lookups(observed, now)
    clusters = [_shown(cluster, now) for cluster in stand(observed, lookups)]
    troubles = tuple(_run(INSTALLATION, observed, now))
    return model.Picture(now, tuple(clusters), troubles, dict(unread))


def _run(diagnoses: Iterable[Diagnosis[T]], subject: T, now: float) -> Iterator[Trouble]:
    for diagnosis in diagnoses:
        for symptom in diagnosis.check(subject):
            if counts(diagnosis, symptom, now):
                yield Trouble(
                    diagnosis.id,
                    diagnosis.level,
                    symptom.message,
                    symptom.remedy,
                    symptom.command,
                    diagnosis.page,
                    symptom.since,
                    hosts=symptom.hosts,
                    pods=symptom.pods,
                )


def _troubles(cluster: Cluster, now: float) -> Iterator[Trouble]:
    """Yield what is wrong with a RayCluster; of one that is left alone, only what is KubeRay's."""
    if cluster.facts.deleting:
        return
    yield from _run(CLUSTER, cluster, now)
    for group in cluster.groups if not cluster.ignored else ():
        for trouble in _run(GROUP, group, now):
            yield structs.replace(trouble, group=group.name)
        for replica in group.replicas:
            for trouble in (*_run(REPLICA, replica, now), *_run(TOLD, Expected(replica), now)):
                yield structs.replace(trouble, group=group.name, replica=replica.index)
    for party in parties(cluster):
        for trouble in _run(PODS, party, now):
            place = party.replica
            yield structs.replace(trouble, group=place.group.name, replica=place.index) if place else trouble


def _shown(cluster: Cluster, now: float) -> model.Cluster:
    found = [structs.replace(each, namespace=cluster.namespace, cluster=cluster.name) for each in _troubles(cluster, now)]
    troubles = sorted(found, key=lambda trouble: trouble.rank)
    return model.Cluster(
        cluster.namespace,
        cluster.name,
        _host(0, cluster.heads),
        tuple(_group(group, troubles) for group in cluster.groups),
        tuple(troubles),
        cluster.facts.suspended,
        cluster.leaving,
    )


def _group(group: Group, troubles: list[Trouble]) -> model.Group:
    wrong = {trouble.replica for trouble in troubles if trouble.group == group.name and trouble.level == ERROR}
    replicas = [_replica(replica, troubled=replica.index in wrong) for replica in group.replicas]
    hosts = group.spec.num_of_hosts
    lacking = group.desired - len(replicas) - (len(group.unseated) // hosts if hosts > 0 else 0)
    empty = tuple(model.Host(host, model.MISSING) for host in range(hosts))
    late = any(trouble.id == "replica-missing" and trouble.group == group.name for trouble in troubles)
    state: model.ReplicaState = "missing" if late else "coming"
    replicas += [model.Replica(None, "", state, empty) for _ in range(max(0, lacking))]
    return model.Group(group.name, hosts, group.desired, tuple(replicas), tuple(unseated.pod.name for unseated in group.unseated))


def _replica(replica: Replica, *, troubled: bool) -> model.Replica:
    count = max(replica.group.spec.num_of_hosts, *(host + 1 for host in replica.pods))
    hosts = tuple(
        _host(host, replica.pods.get(host, []))
        for host in range(count)
        if host in replica.pods or host < replica.group.spec.num_of_hosts
    )
    complete = all(host.state == model.READY for host in hosts)
    state: model.ReplicaState = "waits" if troubled else "complete" if complete else "coming"
    return model.Replica(replica.index, replica.name, state, hosts, replica.newest)


def _host(index: int, pods: list[LivePod]) -> model.Host:
    if not pods:
        return model.Host(index, model.MISSING)
    names = tuple(pod.name for pod in pods)
    state = model.TWICE if len(pods) > 1 else _state(pods[0])
    return model.Host(index, state, names, pods[0].spec.node_name or "", pods[0].created)


def _state(pod: LivePod) -> model.HostState:
    if pod.status.phase in ("Failed", "Succeeded"):
        return "failed"
    if pod.ready:
        return "ready"
    return "pending" if pod.unscheduled else "starting"
