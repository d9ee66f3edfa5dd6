"""Migration from Google's TPU webhook: the worker groups that can be adopted, and the next steps.

https://github.com/ai-on-gke/kuberay-tpu-webhook
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from webhook.api import names
from webhook.api.objects import Bare
from webhook.diagnostics.assigned_pods import Group, Replica, asks_for_tpu, assign
from webhook.diagnostics.expected import Expected
from webhook.diagnostics.installation_problems import PREVIOUS
from webhook.diagnostics.live_objects import Webhook, WebhookConfiguration
from webhook.diagnostics.messages import agreed, counted
from webhook.diagnostics.object_cache import PODS_WEBHOOK, ObjectCache
from webhook.groups.identity_labels import is_labelled
from webhook.groups.naming import headless_service
from webhook.mutation.edit import SetEnv

SELECTOR: Final = f"app={PREVIOUS}"
"""Label selector of its Deployment."""

_CHART: Final = "ray-webhook manifests/chart --namespace ray-webhook"
_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"

_PLACES: Final = (names.TPU_WORKER_ID, names.TPU_WORKER_HOSTNAMES, names.TPU_PROCESS_ADDRESSES)
"""Variables that have to be consistent across the hosts of a replica. Init containers have none."""

State = Literal["done", "next", "later"]


class Installed(Struct, frozen=True):
    """The state of both webhooks in the cluster; resources that could not be read are None."""

    objects: ObjectCache
    """All RayClusters and pods, and the mutating webhook configurations."""
    validating: Sequence[WebhookConfiguration] | None
    deployments: Sequence[Bare] | None
    """Deployments of the previous webhook."""
    ready: bool | None
    """Whether an endpoint of this webhook's Service is ready; None if API servers call a URL."""


class GroupVerdict(Struct, frozen=True):
    """The migration of a worker group with TPUs.

    `carried` and `adopted` count the pods whose identity is in their labels, or was set by the
    previous webhook. `restart`: why the group has to be recreated; empty if it need not be.
    """

    namespace: str
    cluster: str
    group: str
    carried: int
    adopted: int
    restart: str = ""

    @property
    def command(self) -> str:
        """The command that deletes its pods, so that KubeRay recreates them."""
        selector = f"{names.LABEL_CLUSTER}={self.cluster},{names.LABEL_GROUP}={self.group}"
        return f"kubectl delete pod -n {self.namespace} -l {selector}"


class Step(Struct, frozen=True):
    """One step of the migration, in order. `check`: a command that verifies it."""

    id: str
    state: State
    text: str
    commands: tuple[str, ...] = ()
    check: str = ""


class Migration(Struct, frozen=True):
    """The verdicts of all groups, and the steps in order."""

    groups: tuple[GroupVerdict, ...]
    steps: tuple[Step, ...]

    @property
    def done(self) -> bool:
        """Return whether all steps are done."""
        return all(step.state == "done" for step in self.steps)


def migration(installed: Installed, now: float) -> Migration:
    """Return the migration of all groups, and the steps with their state."""
    objects = installed.objects
    clusters = [assign(live, objects, now) for live in objects.clusters.all]
    groups = tuple(
        verdict
        for cluster in sorted(clusters, key=lambda each: (each.namespace, each.name))
        if not cluster.ignored
        for group in cluster.groups
        if (verdict := _verdict(group)) is not None
    )
    return Migration(groups, tuple(_steps(installed, groups)))


def _verdict(group: Group) -> GroupVerdict | None:
    """Return the migration of a group; None if no pod requests TPUs."""
    pods = list(group.pods)
    if not any(asks_for_tpu(pod) for pod in pods):
        return None
    identified = [pod for replica in group.replicas for pod in replica.everyone]
    carried = sum(is_labelled(pod.labels) for pod in identified)
    return GroupVerdict(
        group.cluster.namespace,
        group.cluster.name,
        group.name,
        carried,
        len(identified) - carried,
        next(_reasons(group), ""),
    )


def _reasons(group: Group) -> Iterator[str]:
    """Yield the reasons to recreate a group, the most important first."""
    if group.lost:
        have, first = agreed(len(group.lost), "has", "have"), group.lost[0].pod.name
        yield f"{counted(len(group.lost), 'pod')} {have} no identity, the first is {first}"
    for replica in group.replicas:
        for host, pods in sorted(replica.pods.items()):
            if len(pods) > 1:
                called = " and ".join(sorted(pod.name for pod in pods))
                yield f"{called} both are host {host} of replica {replica.index}"
        if group.spec.num_of_hosts > 1:
            yield from _misnamed(group, replica)


def _misnamed(group: Group, replica: Replica) -> Iterator[str]:
    """Yield differences between names in the pods of a replica and those of a new host."""
    service = headless_service(group.cluster.name)
    for pod in replica.everyone:
        if pod.spec.subdomain and pod.spec.subdomain != service:
            yield (
                f"{pod.name} is found under {pod.spec.subdomain}, and a new host would be "
                f"under {service}"
            )
    expected = Expected(replica)
    for each in expected.host_names():
        yield f"{each.pod.name} has {each.name} {each.shown} in place of {each.expected}"
    for host, pods in sorted(replica.pods.items()):
        for edit in expected.edits_for(host):
            if type(edit) is SetEnv and edit.name in _PLACES:
                in_pod = expected.actual(pods[0], edit)
                if in_pod not in (None, edit.value):
                    text = f"{edit.name} {in_pod} in place of {edit.value}"
                    yield f"{pods[0].name} has {text}"


def _steps(installed: Installed, groups: Sequence[GroupVerdict]) -> Iterator[Step]:
    """Yield the steps: those that are done, the next one, and those for later."""
    waiting = False
    for done, name, text, commands, check in _rows(installed, groups):
        state: State = "done" if done else "later" if waiting else "next"
        waiting = waiting or not done
        yield Step(name, state, text, () if done else commands, check)


def _rows(
    installed: Installed, groups: Sequence[GroupVerdict]
) -> Iterator[tuple[bool, str, str, tuple[str, ...], str]]:
    """Yield for each step whether it is done, its id, text and commands, and a command that
    verifies it.
    """
    mutating, validating = installed.objects.configurations.listed, installed.validating
    ours = [each for _, each in _entries(mutating) if each.name == PODS_WEBHOOK]
    done = bool(ours and ours[0].client_config.ca_bundle and installed.ready)
    commands: tuple[str, ...] = (
        f"helm install {_CHART} --create-namespace --set image.repository=YOUR/ray-webhook",
        "kubectl -n ray-webhook rollout status deployment/ray-webhook",
    )
    text = (
        "install ray-webhook beside it; until the last step it refuses nothing while it is away, "
        "and both webhooks together assign each pod one identity"
    )
    yield done, "install", text, commands, "ray-webhook check --wait 2m"
    commands = tuple(
        f"kubectl delete {kind}webhookconfiguration {name}"
        for kind, known in (("mutating", mutating), ("validating", validating))
        for name in dict.fromkeys(name for name, each in _entries(known) if _is_previous(each))
    )
    done = mutating is not None and validating is not None and not commands
    text = f"remove the configurations of {PREVIOUS}: then only ray-webhook assigns identities"
    yield done, "unregister", text, commands, ""
    commands = tuple(map(_removal, installed.deployments or ()))
    done = installed.deployments is not None and not commands
    yield done, "remove", f"remove what is left of {PREVIOUS}", commands, ""
    commands = tuple(each.command for each in groups if each.restart)
    text = "let KubeRay recreate the groups whose pods cannot be adopted"
    yield not commands, "restart", text, commands, "ray-webhook status -A"
    commands = (f"helm upgrade {_CHART} --reuse-values --set mutating.failurePolicy=Fail",)
    done = bool(ours) and all(each.failure_policy == "Fail" for each in ours)
    text = "set the failure policy, so that no Ray pod is created without ray-webhook"
    yield done, "fail-closed", text, commands, "ray-webhook check"


def _entries(
    configurations: Collection[WebhookConfiguration] | None,
) -> Iterator[tuple[str, Webhook]]:
    for each in configurations or ():
        for webhook in each.webhooks or ():
            yield each.metadata.name or "", webhook


def _is_previous(webhook: Webhook) -> bool:
    service = webhook.client_config.service
    return PREVIOUS in webhook.name or (service is not None and service.name == PREVIOUS)


def _removal(deployment: Bare) -> str:
    meta = deployment.metadata
    release = (meta.annotations or {}).get(_RELEASE)
    if release:
        namespace = (meta.annotations or {}).get(_RELEASE_NAMESPACE, meta.namespace)
        return f"helm uninstall {release} -n {namespace}"
    return f"kubectl delete -n {meta.namespace} deployment,service,serviceaccount {meta.name}"
