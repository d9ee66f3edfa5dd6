"""Checks of an installation, based on responses of the API server, with remedies."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from webhook.api import names
from webhook.diagnostics import ids
from webhook.diagnostics.diagnosis import ERROR
from webhook.diagnostics.installation_problems import OURS, second_webhook
from webhook.diagnostics.live_objects import Webhook, WebhookConfiguration
from webhook.diagnostics.messages import counted
from webhook.diagnostics.object_cache import PODS_WEBHOOK
from webhook.diagnostics.report import ClusterReport
from webhook.validation.rule_settings import GATES, RuleSettings

CLUSTERS_WEBHOOK: Final = f"clusters{OURS}"
"""The webhook for RayClusters."""

SHARDS_WEBHOOK: Final = f"shards{OURS}"
"""The webhook that assigns the indices of shard groups."""

DEFINITIONS: Final = "customresourcedefinitions"
"""The source of the KubeRay release that the rules assume; optional."""

LEASES: Final = "leases"
"""The store of reservations, required for every seat."""

KUBERNETES_VERSION: Final = "kubernetes-version"
KUBERAY_SERVED: Final = "kuberay-served"
KUBERAY_VERSION: Final = "kuberay-version"
CERT_MANAGER: Final = "cert-manager"
REGISTERED: Final = "registered"
CA_BUNDLE: Final = "ca-bundle"
FAILURE_POLICY: Final = "failure-policy"
ENDPOINTS: Final = "endpoints"
RESERVATIONS: Final = "reservations"
RIGHTS: Final = "rights"
FEATURE_GATES: Final = "feature-gates"
DRY_RUN_DENIED: Final = "dry-run-denied"
DRY_RUN_PATCHED: Final = "dry-run-patched"
SEATS: Final = "seats"

PAGE: Final = "docs/troubleshooting.md"
OLDEST_KUBERNETES: Final = (1, 30)
OLDEST_KUBERAY: Final = (1, 1)
_RELEASE: Final = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})(?![0-9])")
"""A release in an image tag, which may be any text; longer numbers are not a release."""

_ON: Final = ("true", "t", "1")
"""Values that Go parses as true."""

Verdict = Literal["fine", "warning", "error", "unknown"]
Object = dict[str, Any]


class Result(Struct, frozen=True, omit_defaults=True):
    """The result of a check. `remedy` is empty if the verdict is `fine`."""

    id: str
    verdict: Verdict
    text: str
    remedy: str = ""

    @property
    def page(self) -> str:
        """Link to the documentation of the check."""
        return f"{PAGE}#{self.id}"


class Tried(Struct, frozen=True):
    """The result of a dry run: the object as it would be stored, or the rejection. Both are empty
    if the dry run was not made.
    """

    stored: Object | None = None
    refused: str = ""
    reason: str = ""


class Probed(Struct, frozen=True):
    """Responses of the API server, None if unreadable; `unread` has the reasons, by resource."""

    version: Object
    served: bool | None
    """Whether the RayCluster API is served."""
    cert_manager: bool | None
    operators: Sequence[Object] | None
    """The Deployments of the KubeRay operator."""
    mutating: Collection[WebhookConfiguration] | None
    validating: Sequence[WebhookConfiguration] | None
    ready: dict[str, int | None]
    """Numbers of ready endpoints, by `namespace/service` of the webhooks of this program."""
    accounts: tuple[str, ...] = ()
    """The service accounts of the pods behind these Services."""
    settings: tuple[str, ...] | None = ()
    """The contents of the ConfigMaps that these pods mount, including their settings."""
    rights: dict[str, bool | None] = {}
    """Whether the first account has a permission: `verb resource` or `verb resource in namespace`.
    """
    reservations: dict[str, Tried] = {}
    """Dry runs of a new Lease and of each Lease with reservations, by namespace and name."""
    broken: Tried = Tried()
    """Dry run of a RayCluster with two groups of the same name."""
    worker: Tried = Tried()
    """Dry run of a worker pod, of the existing RayCluster `owner` if set."""
    owner: str = ""
    picture: ClusterReport | None = None
    scope: str = ""
    """Namespace of the report; empty for all."""
    unread: dict[str, str] = {}


def before(probed: Probed) -> Iterator[Result]:
    """Yield the results of the checks of what an installation requires."""
    yield _kubernetes(probed)
    yield from _kuberay(probed)
    yield _certificates(probed)


def after(
    probed: Probed,
    expiry: Callable[[str], float | None],
    gates_in: Callable[[str], Mapping[str, bool]],
    now: float,
) -> Iterator[Result]:
    """Yield the results of the checks of an installation. `expiry` returns when a caBundle (base64
    of PEM) expires, None if unreadable; `gates_in` returns the feature gates in a settings text.
    """
    ours = [*_ours(probed.mutating), *_ours(probed.validating)]
    yield from _registered(probed, ours)
    yield from _bundles(ours, expiry, now)
    yield from _policies(ours)
    yield from _endpoints(probed)
    yield from _rights(probed)
    yield from _gates(probed, gates_in)
    yield from _reservations(probed)
    yield from _second(probed)
    yield _denial(probed.broken)
    yield _patch(probed)
    yield from _seats(probed)


def of_files(
    configurations: Collection[WebhookConfiguration] | None, picture: ClusterReport, namespace: str
) -> Iterator[Result]:
    """Yield the results of the checks that need no requests to a cluster."""
    probed = Probed(
        {}, None, None, None, configurations, None, {}, picture=picture, scope=namespace
    )
    yield from _second(probed)
    yield from _seats(probed)


def where(probed: Probed) -> str:
    """Return the namespaces whose RayClusters and pods were read, in words."""
    return f"namespace {probed.scope}" if probed.scope else "all namespaces"


def _kubernetes(probed: Probed) -> Result:
    text = str(probed.version.get("gitVersion", ""))
    found = _release(text)
    if found is None:
        return Result(
            KUBERNETES_VERSION,
            "unknown",
            f"Kubernetes says its version is {text!r}",
            "see that this is Kubernetes",
        )
    if found < OLDEST_KUBERNETES:
        return Result(
            KUBERNETES_VERSION,
            "error",
            f"Kubernetes {text}",
            f"upgrade to {_shown(OLDEST_KUBERNETES)} or later",
        )
    return Result(KUBERNETES_VERSION, "fine", f"Kubernetes {text}")


def _kuberay(probed: Probed) -> Iterator[Result]:
    if not probed.served:
        yield Result(
            KUBERAY_SERVED,
            "error",
            "RayClusters are not served",
            "install KubeRay first, with its CRDs",
        )
        return
    yield Result(KUBERAY_SERVED, "fine", "RayClusters are served")
    if probed.operators is None:
        yield _unread(probed, KUBERAY_VERSION, "deployments", "KubeRay's version is not known")
    for operator in probed.operators or ():
        yield _operator(operator)
    if probed.operators is not None and not probed.operators:
        advice = (
            "see that the operator runs; it may be outside of this cluster, or under another label"
        )
        yield Result(KUBERAY_VERSION, "warning", "no KubeRay operator was found", advice)


def _started(deployment: Object) -> tuple[str, str]:
    """Return the image of an operator and its `feature-gates` argument."""
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get(
        "containers"
    ) or [{}]
    image, arguments = str(containers[0].get("image", "")), containers[0].get("args") or []
    gates = [
        str(part).partition("=")[2]
        for part in arguments
        if str(part).lstrip("-").startswith("feature-gates=")
    ]
    return image, gates[0] if gates else ""


def _gates(probed: Probed, gates_in: Callable[[str], Mapping[str, bool]]) -> Iterator[Result]:
    """Yield whether the feature gates that the rules assume are those of the operator."""
    if not probed.operators or len(probed.operators) > 1:
        return  # the operator that manages a RayCluster is unknown
    if probed.settings is None:
        text = "the feature gates in the settings are not known"
        yield _unread(probed, FEATURE_GATES, "configmaps", text)
        return
    image, argument = _started(probed.operators[0])
    release = _release(image.rpartition(":")[2])
    pairs = (pair.partition("=")[::2] for pair in argument.split(","))
    named = {name.strip(): value.strip().lower() in _ON for name, value in pairs if name.strip()}
    ours = {name: on for text in probed.settings for name, on in gates_in(text).items()}
    actual = RuleSettings(gates=named, kuberay=release)
    assumed = RuleSettings(gates=ours, kuberay=release)
    wrong = [gate for gate in GATES if actual.enabled(gate) != assumed.enabled(gate)]
    if not wrong:
        yield Result(FEATURE_GATES, "fine", "the rules assume the feature gates of the operator")
        return
    shown = ", ".join(f"{gate}={str(actual.enabled(gate)).lower()}" for gate in wrong)
    defaults = RuleSettings(kuberay=release)
    wanted = {
        gate: str(actual.enabled(gate)).lower()
        for gate in GATES
        if gate in wrong or actual.enabled(gate) != defaults.enabled(gate)
    }
    yield Result(
        FEATURE_GATES,
        "warning",
        f"the operator runs with {shown}, and the rules assume the opposite",
        f"set validation.gates to {{{', '.join(f'{gate}: {on}' for gate, on in wanted.items())}}}",
    )


def _operator(deployment: Object) -> Result:
    image, gates = _started(deployment)
    found = _release(image.rpartition(":")[2])
    text = f"KubeRay {image.rpartition('/')[2]}{f', gates {gates}' if gates else ''}"
    if found is not None and found < OLDEST_KUBERAY:
        return Result(
            KUBERAY_VERSION, "error", text, f"upgrade to {_shown(OLDEST_KUBERAY)} or later"
        )
    return Result(KUBERAY_VERSION, "fine", text)


def _certificates(probed: Probed) -> Result:
    if probed.cert_manager:
        return Result(CERT_MANAGER, "fine", "cert-manager is there, to issue the certificate")
    advice = (
        "install cert-manager, or the webhook with its own certificate: "
        "certificates.source=self-signed of the chart"
    )
    return Result(
        CERT_MANAGER, "warning", "cert-manager is not there; the webhook can do without", advice
    )


def _ours(configurations: Collection[WebhookConfiguration] | None) -> list[tuple[str, Webhook]]:
    return [
        (each.metadata.name or "", webhook)
        for each in configurations or ()
        for webhook in each.webhooks or ()
        if webhook.name.endswith(OURS)
    ]


def _registered(probed: Probed, ours: list[tuple[str, Webhook]]) -> Iterator[Result]:
    for name, known, what in (
        (PODS_WEBHOOK, probed.mutating, "mutatingwebhookconfigurations"),
        (CLUSTERS_WEBHOOK, probed.validating, "validatingwebhookconfigurations"),
    ):
        if known is None:
            yield _unread(probed, REGISTERED, what, f"whether {name} is registered is not known")
        elif not any(webhook.name == name for _, webhook in ours):
            yield Result(
                REGISTERED,
                "error",
                f"no configuration has {name}",
                "install the webhook: docs/install.md",
            )
        else:
            yield Result(REGISTERED, "fine", f"{name} is registered")


def _bundles(
    ours: list[tuple[str, Webhook]], expiry: Callable[[str], float | None], now: float
) -> Iterator[Result]:
    for name, webhook in ours:
        bundle = webhook.client_config.ca_bundle
        until = expiry(bundle) if bundle else None
        if not bundle:
            advice = (
                "see why no one writes it: cert-manager's cainjector, or in self-signed mode the "
                "webhook itself"
            )
            yield Result(CA_BUNDLE, "error", f"{webhook.name} (of {name}) has no caBundle", advice)
        elif until is None:
            yield Result(
                CA_BUNDLE,
                "error",
                f"the caBundle of {webhook.name} holds no certificate",
                "remove it: it is written again",
            )
        elif until <= now:
            yield Result(
                CA_BUNDLE,
                "error",
                f"the caBundle of {webhook.name} has expired",
                "see why no one renews it",
            )
        else:
            days = int((until - now) // 86400)
            yield Result(
                CA_BUNDLE,
                "fine",
                f"the caBundle of {webhook.name} is valid for {counted(days, 'day')}",
            )


_LOST: Final = {
    PODS_WEBHOOK: "a pod that is created while the webhook is away never gets its seat",
    SHARDS_WEBHOOK: (
        "a RayCluster of a shard group that is created while the webhook is away gets no index"
    ),
}
"""Permanent effect of a failed call, by webhook."""


def _policies(ours: list[tuple[str, Webhook]]) -> Iterator[Result]:
    for _, webhook in ours:
        lost = _LOST.get(webhook.name)
        if lost is not None and webhook.failure_policy != "Fail":
            text = f"failurePolicy of {webhook.name} is {webhook.failure_policy}"
            advice = f"set it to Fail: with Ignore, {lost}"
            yield Result(FAILURE_POLICY, "warning", text, advice)
        else:
            yield Result(
                FAILURE_POLICY,
                "fine",
                f"failurePolicy of {webhook.name} is {webhook.failure_policy}",
            )


def _endpoints(probed: Probed) -> Iterator[Result]:
    for service, count in probed.ready.items():
        if count is None:
            yield _unread(
                probed, ENDPOINTS, "endpointslices", f"who is ready behind {service} is not known"
            )
        elif not count:
            namespace = service.partition("/")[0]
            advice = (
                f"see why: kubectl get pods -n {namespace}; its /readyz?verbose says what it "
                "waits for"
            )
            yield Result(ENDPOINTS, "error", f"no pod is ready behind service {service}", advice)
        else:
            are = "is" if count == 1 else "are"
            yield Result(
                ENDPOINTS,
                "fine",
                f"{counted(count, 'endpoint')} {are} ready behind service {service}",
            )


def _rights(probed: Probed) -> Iterator[Result]:
    if not probed.accounts:
        return
    account = probed.accounts[0]
    for right, allowed in probed.rights.items():
        if allowed is None:
            yield _unread(
                probed,
                RIGHTS,
                "subjectaccessreviews",
                f"whether {account} may {right} is not known",
            )
        elif not allowed and right.endswith(DEFINITIONS):
            yield Result(
                RIGHTS,
                "warning",
                f"{account} may not {right}, to see which KubeRay the rules speak for",
                "apply the ClusterRole of the chart, or set validation.kuberay",
            )
        elif not allowed and f" {LEASES} in " in right:
            yield Result(
                RIGHTS,
                "error",
                f"{account} may not {right}, by which seats are given",
                "apply the Role of the chart there; where the setting "
                "installation.namespace names another namespace, give it to `check` as well",
            )
        elif not allowed:
            yield Result(
                RIGHTS,
                "error",
                f"{account} may not {right}",
                "apply the ClusterRole of the chart",
            )
    if probed.rights and all(probed.rights.values()):
        yield Result(RIGHTS, "fine", f"{account} may {', '.join(probed.rights)}")


_LACKS_RIGHT: Final = re.compile(r'User "[^"]*" cannot ')


def _reservations(probed: Probed) -> Iterator[Result]:
    """Yield whether reservations can be written: Leases created and replaced."""
    refused = {name: tried for name, tried in probed.reservations.items() if tried.refused}
    own = [tried.refused for tried in refused.values() if _LACKS_RIGHT.search(tried.refused)]
    if own:
        yield Result(
            RESERVATIONS,
            "unknown",
            f"dry runs of Leases are not allowed to you: {own[0]}",
            "ask somebody who may create and update Leases there",
        )
    for name, tried in refused.items():
        if tried.refused in own:
            continue
        if tried.reason == "unreadable":
            advice = "do what the message says; until then its worker groups get no new pods"
        else:
            advice = (
                "remove what refuses it: an admission webhook, a policy or a quota of that "
                "namespace; until then no pod without an identity of KubeRay is admitted"
            )
        text = f"Lease {name} cannot be written, so nothing can be reserved: {tried.refused}"
        yield Result(RESERVATIONS, "error", text, advice)
    if probed.reservations and not refused:
        count = counted(len(probed.reservations), "Lease")
        yield Result(RESERVATIONS, "fine", f"{count} can be written, in dry runs")


def _second(probed: Probed) -> Iterator[Result]:
    if probed.mutating is None:
        return
    others = list(second_webhook(probed.mutating or ()))
    for other in others:
        yield Result(ids.SECOND_WEBHOOK, "error", other.message, f"{other.remedy}: {other.command}")
    if not others:
        yield Result(ids.SECOND_WEBHOOK, "fine", "no other webhook is made for the pods of Ray")


def _denial(tried: Tried) -> Result:
    """Return the result of the dry run of a RayCluster that has to be denied."""
    if tried.stored is not None:
        advice = (
            "see the namespaceSelector of its configuration, and whether its pods are ready: with "
            "Ignore no one asks twice"
        )
        return Result(
            DRY_RUN_DENIED,
            "error",
            "a broken RayCluster passes: the webhook is not asked",
            advice,
        )
    if _denied_by(tried, CLUSTERS_WEBHOOK):
        return Result(DRY_RUN_DENIED, "fine", "a broken RayCluster is denied, in a dry run")
    return _other_refusal(DRY_RUN_DENIED, tried, "a broken RayCluster")


def _patch(probed: Probed) -> Result:
    """Return the result of the dry run of a worker pod: the pod gets its seat, or is denied if its
    RayCluster does not exist.
    """
    tried, what = probed.worker, "a worker pod"
    if probed.owner:
        what = f"a worker pod of {probed.owner}"
        labels = (tried.stored or {}).get("metadata", {}).get("labels") or {}
        if tried.stored is not None and names.LABEL_REPLICA_INDEX in labels:
            return Result(
                DRY_RUN_PATCHED,
                "fine",
                f"{what} gets its seat, in a dry run: replica {labels[names.LABEL_REPLICA_INDEX]}",
            )
        if _denied_by(tried, PODS_WEBHOOK):
            return Result(
                DRY_RUN_PATCHED,
                "warning",
                f"{what} is denied: {tried.refused}",
                "do what the message says",
            )
    elif _denied_by(tried, PODS_WEBHOOK):
        return Result(
            DRY_RUN_PATCHED, "fine", "a worker pod of no RayCluster is denied, in a dry run"
        )
    if tried.stored is not None:
        advice = "see the selectors of its configuration, and whether its pods are ready"
        return Result(
            DRY_RUN_PATCHED, "error", f"{what} passes untouched: the webhook is not asked", advice
        )
    return _other_refusal(DRY_RUN_PATCHED, tried, what)


def _denied_by(tried: Tried, webhook: str) -> bool:
    return f'admission webhook "{webhook}" denied the request' in tried.refused


_FAILED: Final = re.compile(r"failed calling webhook \"([^\"]+)\"")
_CAUSES: Final = (
    (
        r"deadline exceeded|i/o timeout|timed out|no route to host",
        "a NetworkPolicy or firewall between API server and pods?",
    ),
    (r"connection refused|no endpoints available", "no pod listens: see whether they run"),
    (r"x509|certificate", "caBundle and certificate do not fit: see ca-bundle above"),
    (
        r"service \"[^\"]*\" not found|no such host",
        "the Service does not exist: apply the manifests again",
    ),
)


def _other_refusal(name: str, tried: Tried, what: str) -> Result:
    """Return the result of a rejection that is not a denial by this webhook: a failed call, a
    missing permission, or another admission plugin.
    """
    failed = _FAILED.search(tried.refused)
    if failed is not None:
        advice = next(
            (text for cause, text in _CAUSES if re.search(cause, tried.refused)),
            "see the log of the webhook",
        )
        return Result(
            name, "error", f"the API server cannot call {failed[1]}: {tried.refused}", advice
        )
    if not tried.refused:
        return Result(name, "unknown", f"no dry run of {what} was made", "name a namespace with -n")
    if tried.reason == "forbidden" and "admission webhook" not in tried.refused:
        return Result(
            name,
            "unknown",
            f"a dry run of {what} is refused: {tried.refused}",
            "ask somebody who may create it",
        )
    return Result(
        name,
        "unknown",
        f"a dry run of {what} is refused by others: {tried.refused}",
        "try another namespace, with -n",
    )


def _seats(probed: Probed) -> Iterator[Result]:
    if probed.picture is None:
        yield _unread(probed, SEATS, "pods", "whether all workers have a seat is not known")
        return
    found = [each for each in probed.picture.every_trouble if each.level == ERROR]
    wrong = [
        each
        for each in found
        if each.id
        in (ids.POD_WITHOUT_SEAT, ids.SEAT_HELD_TWICE, ids.WORKER_ID_DIFFERS, ids.HOSTNAME_DIFFERS)
    ]
    for each in wrong:
        yield Result(
            SEATS,
            "error",
            f"{each.namespace}/{each.cluster}: {each.message}",
            f"{each.remedy}: {each.command}",
        )
    if not wrong:
        hosts = sum(
            bool(host.pods)
            for each in probed.picture.clusters
            for group in each.groups
            for replica in group.replicas
            for host in replica.hosts
        )
        text = f"{counted(hosts, 'worker')} in as many seats, in {where(probed)}"
        yield Result(SEATS, "fine", text)


def _unread(probed: Probed, name: str, resource: str, text: str) -> Result:
    why = probed.unread.get(resource, "it could not be read")
    return Result(name, "unknown", f"{text}: {resource} ({why})", "ask somebody who may read them")


def _release(text: str) -> tuple[int, int] | None:
    match = _RELEASE.match(text)
    return (int(match[1]), int(match[2])) if match else None


def _shown(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
