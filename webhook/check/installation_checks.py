"""Checks of an installation, based on responses of the API server, with remedies."""

import re
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from webhook.api import names
from webhook.diagnostics.diagnosis import ERROR
from webhook.diagnostics.installation_problems import OURS, second_webhook
from webhook.diagnostics.messages import format_count
from webhook.diagnostics.report import ClusterReport
from webhook.objects.live_objects import Webhook, WebhookConfiguration
from webhook.objects.object_cache import OPTIONAL_PODS_WEBHOOK, PODS_WEBHOOK
from webhook.validation.rule_settings import GATES, OPERATORS, RuleSettings

CLUSTERS_WEBHOOK: Final = f"clusters{OURS}"
"""The webhook for RayClusters."""

DEFINITIONS: Final = "customresourcedefinitions"
"""The source of the KubeRay release that the rules assume; optional."""

LEASES: Final = "leases"
QUOTAS: Final = "resourcequotas"
LIMIT_RANGES: Final = "limitranges"
"""The store of reservations, required for every identity."""

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


class Assumed(Struct, frozen=True):
    """The settings of the rules that are compared with the operator: `validation.gates` and
    `validation.operators`.
    """

    gates: dict[str, bool] = {}
    operators: Sequence[str] = OPERATORS


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
    cluster_report: ClusterReport | None = None
    scope: str = ""
    """Namespace of the report; empty for all."""
    unread: dict[str, str] = {}


Found = tuple[Verdict, str, str]
"""Verdict, text and remedy of a check, whose id is in the tables of `before` and `after`."""


def before(probed: Probed) -> Iterator[Result]:
    """Yield the results of the checks of what an installation requires."""
    yield from _results(
        ("kubernetes-version", _kubernetes(probed)),
        ("kuberay-served", _check_rayclusters_served(probed)),
        ("kuberay-version", _operators(probed)),
        ("cert-manager", _cert_manager(probed)),
    )


def after(
    probed: Probed,
    expiry: Callable[[str], float | None],
    assumed: Assumed | None,
    now: float,
) -> Iterator[Result]:
    """Yield the results of the checks of an installation. `expiry` returns when a caBundle (base64
    of PEM) expires, None if unreadable; `assumed` are the settings of the webhook, None if
    unreadable.
    """
    ours = [
        (configuration.metadata.name or "", webhook)
        for configuration in (*(probed.mutating or ()), *(probed.validating or ()))
        for webhook in configuration.webhooks or ()
        if webhook.name.endswith(OURS)
    ]
    yield from _results(
        ("registered", _check_registration(probed, {webhook.name for _, webhook in ours})),
        ("ca-bundle", _bundles(ours, expiry, now)),
        ("endpoints", _endpoints(probed, [webhook for _, webhook in ours])),
        ("rights", _rights(probed)),
        ("feature-gates", _gates(probed, assumed)),
        ("operator-account", _accounts(probed, assumed)),
        ("reservations", _reservations(probed)),
        ("second-webhook", _second(probed.mutating)),
        ("dry-run-denied", _denial(probed.broken)),
        ("dry-run-patched", _patch(probed)),
        ("identities", _workers(probed)),
    )


def of_files(
    configurations: Collection[WebhookConfiguration] | None,
    cluster_report: ClusterReport,
    namespace: str,
) -> Iterator[Result]:
    """Yield the results of the checks that need no requests to a cluster."""
    yield from _results(
        ("second-webhook", _second(configurations)),
        ("identities", _identities(cluster_report, where(namespace), of_files=True)),
    )


def _results(*checks: tuple[str, Iterator[Found]]) -> Iterator[Result]:
    for name, every in checks:
        for verdict, message, remedy in every:
            yield Result(name, verdict, message, remedy)


def _fine(text: str) -> Found:
    return "fine", text, ""


def _unread(probed: Probed, resource: str, text: str) -> Found:
    why = probed.unread.get(resource, "it could not be read")
    return "unknown", f"{text}: {resource} ({why})", f"use an account that may read {resource}"


def where(namespace: str) -> str:
    """Return a namespace, or all if empty, in words."""
    return f"namespace {namespace}" if namespace else "all namespaces"


def _kubernetes(probed: Probed) -> Iterator[Found]:
    git_version = str(probed.version.get("gitVersion", ""))
    release = _release(git_version)
    if release is None:
        message = f"the API server has version {git_version!r}, which is no release of Kubernetes"
        yield "unknown", message, "check that the context is a Kubernetes cluster"
    else:
        yield _recent(f"Kubernetes {git_version}", release, OLDEST_KUBERNETES)


def _recent(text: str, found: tuple[int, int] | None, oldest: tuple[int, int]) -> Found:
    if found is not None and found < oldest:
        return "error", text, f"upgrade to {oldest[0]}.{oldest[1]} or later"
    return _fine(text)


def _check_rayclusters_served(probed: Probed) -> Iterator[Found]:
    if probed.served:
        yield _fine("RayClusters are served")
    else:
        yield "error", "RayClusters are not served", "install KubeRay first, with its CRDs"


def _operators(probed: Probed) -> Iterator[Found]:
    if not probed.served:
        return
    if probed.operators is None:
        yield _unread(probed, "deployments", "KubeRay's version is not known")
    elif not probed.operators:
        advice = (
            "check that the operator is running; it may be outside of this cluster, or have other "
            "labels"
        )
        yield "warning", "no KubeRay operator was found", advice
    for image, gates in map(_read_image_and_gates, probed.operators or ()):
        message = f"KubeRay {image.rpartition('/')[2]}{f', gates {gates}' if gates else ''}"
        yield _recent(message, _release(image.rpartition(":")[2]), OLDEST_KUBERAY)


def _pod_spec(deployment: Object) -> Object:
    spec: Object = deployment.get("spec", {}).get("template", {}).get("spec", {})
    return spec


def _read_image_and_gates(deployment: Object) -> tuple[str, str]:
    """Return the image of an operator and its `feature-gates` argument."""
    container = (_pod_spec(deployment).get("containers") or [{}])[0]
    pairs = (str(argument).lstrip("-").partition("=") for argument in container.get("args") or ())
    gates = (value for name, _, value in pairs if name == "feature-gates")
    return str(container.get("image", "")), next(gates, "")


def _gates(probed: Probed, settings: Assumed | None) -> Iterator[Found]:
    """Yield whether the feature gates that the rules assume are those of the operator."""
    if not probed.operators or len(probed.operators) > 1:
        return  # the operator that manages a RayCluster is unknown
    if settings is None:
        yield _unread(probed, "configmaps", "the feature gates in the settings are not known")
        return
    image, argument = _read_image_and_gates(probed.operators[0])
    release = _release(image.rpartition(":")[2])
    pairs = (pair.partition("=")[::2] for pair in argument.split(","))
    operator_gates = {name.strip(): value.strip().lower() in _ON for name, value in pairs}
    actual, assumed, default = (
        RuleSettings(gates=gates, kuberay=release) for gates in (operator_gates, settings.gates, {})
    )
    wrong = [gate for gate in GATES if actual.enabled(gate) != assumed.enabled(gate)]
    if not wrong:
        yield _fine("the rules assume the feature gates of the operator")
        return
    gates_to_set = [g for g in GATES if g in wrong or actual.enabled(g) != default.enabled(g)]
    on = {gate: str(actual.enabled(gate)).lower() for gate in GATES}
    gate_values = ", ".join(f"{gate}={on[gate]}" for gate in wrong)
    yield (
        "warning",
        f"the operator runs with {gate_values}, and the rules assume the opposite",
        f"set validation.gates to {{{', '.join(f'{gate}: {on[gate]}' for gate in gates_to_set)}}}",
    )


def _accounts(probed: Probed, settings: Assumed | None) -> Iterator[Found]:
    """Yield whether the setting `validation.operators` contains the accounts of the operators."""
    if not probed.operators:
        return
    if settings is None:
        yield _unread(probed, "configmaps", "the setting validation.operators is not known")
        return
    missing = [
        account for account in map(_account, probed.operators) if account not in settings.operators
    ]
    if not missing:
        yield _fine("validation.operators contains the account of the operator")
        return
    message = (
        f"the operator runs as {', '.join(missing)}, which validation.operators does not contain: "
        "RayClusters that it creates for RayJobs and RayServices can be denied"
    )
    yield (
        "warning",
        message,
        f"set validation.operators to [{', '.join((*settings.operators, *missing))}]",
    )


def _account(deployment: Object) -> str:
    namespace = deployment.get("metadata", {}).get("namespace", "")
    name = _pod_spec(deployment).get("serviceAccountName") or "default"
    return f"system:serviceaccount:{namespace}:{name}"


def _cert_manager(probed: Probed) -> Iterator[Found]:
    if probed.cert_manager:
        yield _fine("cert-manager is installed")
        return
    advice = (
        "install cert-manager, or the webhook with its own certificate: "
        "certificates.source=self-signed of the chart"
    )
    yield "warning", "cert-manager is not installed; it is optional", advice


def _check_registration(probed: Probed, ours: Container[str]) -> Iterator[Found]:
    for name, configurations, resource in (
        (PODS_WEBHOOK, probed.mutating, "mutatingwebhookconfigurations"),
        (CLUSTERS_WEBHOOK, probed.validating, "validatingwebhookconfigurations"),
    ):
        if configurations is None:
            yield _unread(probed, resource, f"it is not known whether {name} is registered")
        elif name in ours:
            yield _fine(f"{name} is registered")
        else:
            message = f"no webhook configuration contains {name}"
            yield "error", message, "install the webhook: docs/install.md"


def _bundles(
    ours: list[tuple[str, Webhook]], expiry: Callable[[str], float | None], now: float
) -> Iterator[Found]:
    for configuration, webhook in ours:
        bundle = webhook.client_config.ca_bundle
        until = expiry(bundle) if bundle else None
        bundle_name = f"the caBundle of {webhook.name}"
        if not bundle:
            advice = (
                "check what writes it: cert-manager's cainjector, or in self-signed mode the "
                "webhook itself"
            )
            yield "error", f"{webhook.name} (of {configuration}) has no caBundle", advice
        elif until is None:
            yield (
                "error",
                f"{bundle_name} contains no certificate",
                "remove it, so that it is written again",
            )
        elif until <= now:
            yield (
                "error",
                f"{bundle_name} has expired",
                "check the Certificate ray-webhook-tls, or the log event webhook.certs",
            )
        else:
            yield _fine(
                f"{bundle_name} is valid for {format_count(int((until - now) // 86400), 'day')}"
            )


def _without_webhook(ours: Sequence[Webhook]) -> str:
    """Return what happens to new Ray pods while no process answers."""
    policies = {webhook.name: webhook.failure_policy for webhook in ours}
    if policies.get(PODS_WEBHOOK) != "Fail":
        return "new Ray pods are created without it, and multi-host replicas hang"
    if OPTIONAL_PODS_WEBHOOK not in policies:
        return "new Ray pods are rejected"
    return "new workers that would hang without it are rejected, and other Ray pods are created"


def _endpoints(probed: Probed, ours: Sequence[Webhook]) -> Iterator[Found]:
    for service, count in probed.ready.items():
        if count is None:
            yield _unread(
                probed, "endpointslices", f"it is not known whether {service} has endpoints"
            )
        elif count:
            are = "is" if count == 1 else "are"
            yield _fine(f"{format_count(count, 'endpoint')} {are} ready behind service {service}")
        else:
            advice = (
                f"check its pods: kubectl get pods -n {service.partition('/')[0]}; /readyz?verbose "
                "shows the unmet conditions of a pod"
            )
            message = f"no pod is ready behind service {service}: {_without_webhook(ours)}"
            yield "error", message, advice


_WITHOUT_QUOTAS: Final = (
    "warning",
    ", to warn of Ray objects whose pods do not fit",
    "apply the ClusterRole of the chart, unless quotas.enabled is false",
)
_WITHOUT_RIGHT: Final[tuple[tuple[str, Verdict, str, str], ...]] = (
    (f" {QUOTAS}", *_WITHOUT_QUOTAS),
    (f" {LIMIT_RANGES}", *_WITHOUT_QUOTAS),
    (
        DEFINITIONS,
        "warning",
        ", to read the release of KubeRay for the rules",
        "apply the ClusterRole of the chart, or set validation.kuberay",
    ),
    (
        f" {LEASES} in ",
        "error",
        ", to reserve identities",
        (
            "apply the Role of the chart there; if the setting installation.namespace names "
            "another namespace, give it to `check` as well"
        ),
    ),
    ("", "error", "", "apply the ClusterRole of the chart"),
)
"""Verdict, effect and remedy of a missing right, by a part of its name."""


def _rights(probed: Probed) -> Iterator[Found]:
    if not probed.accounts:
        return
    account = probed.accounts[0]
    for right, allowed in probed.rights.items():
        if allowed is None:
            message = f"it is not known whether {account} may {right}"
            yield _unread(probed, "subjectaccessreviews", message)
        elif not allowed:
            missing_right = next(row for row in _WITHOUT_RIGHT if row[0] in right)
            yield missing_right[1], f"{account} may not {right}{missing_right[2]}", missing_right[3]
    if probed.rights and all(probed.rights.values()):
        yield _fine(f"{account} may {', '.join(probed.rights)}")


_LACKS_RIGHT: Final = re.compile(r'User "[^"]*" cannot ')
_UNREADABLE: Final = "fix what the message names; until then its worker groups get no new pods"
_UNWRITABLE: Final = (
    "allow it in the admission webhook, policy or quota that refuses it; until then pods without "
    "an identity from KubeRay are denied"
)


def _reservations(probed: Probed) -> Iterator[Found]:
    """Yield whether reservations can be written: Leases created and replaced."""
    refused = {name: tried for name, tried in probed.reservations.items() if tried.refused}
    user_refusals = [
        tried.refused for tried in refused.values() if _LACKS_RIGHT.search(tried.refused)
    ]
    if user_refusals:
        message = f"you may not make dry runs of Leases: {user_refusals[0]}"
        yield "unknown", message, "use an account that may create and update Leases there"
    for name, tried in refused.items():
        if tried.refused not in user_refusals:
            message = f"Lease {name} cannot be written, so nothing can be reserved: {tried.refused}"
            yield "error", message, _UNREADABLE if tried.reason == "unreadable" else _UNWRITABLE
    if probed.reservations and not refused:
        yield _fine(
            f"{format_count(len(probed.reservations), 'Lease')} can be written, in dry runs"
        )


def _second(mutating: Collection[WebhookConfiguration] | None) -> Iterator[Found]:
    if mutating is None:
        return
    problems = list(second_webhook(mutating))
    for problem in problems:
        yield "error", problem.message, f"{problem.remedy}: {problem.command}"
    if not problems:
        yield _fine("no second webhook for Ray pods is registered")


def _denial(tried: Tried) -> Iterator[Found]:
    """Yield the result of the dry run of a RayCluster that has to be denied."""
    if tried.stored is not None:
        advice = (
            "check the namespaceSelector of its configuration, and that its pods are ready: with "
            "failurePolicy Ignore, a failed call is no denial"
        )
        yield "error", "an invalid RayCluster is accepted: the webhook is not called", advice
    elif _is_denied_by(tried, CLUSTERS_WEBHOOK):
        yield _fine("an invalid RayCluster is denied, in a dry run")
    else:
        yield _other_refusal(tried, "an invalid RayCluster")


def _patch(probed: Probed) -> Iterator[Found]:
    """Yield the result of the dry run of a worker pod: the pod gets its identity, or is denied if
    its RayCluster does not exist.
    """
    tried = probed.worker
    pod_description = f"a worker pod of {probed.owner}" if probed.owner else "a worker pod"
    labels = (tried.stored or {}).get("metadata", {}).get("labels") or {}
    index = labels.get(names.LABEL_REPLICA_INDEX)
    if probed.owner and index is not None:
        yield _fine(f"{pod_description} gets its identity, in a dry run: replica {index}")
    elif _is_denied_by(tried, PODS_WEBHOOK) and probed.owner:
        yield (
            "warning",
            f"{pod_description} is denied: {tried.refused}",
            "fix what the message names",
        )
    elif _is_denied_by(tried, PODS_WEBHOOK):
        yield _fine("a worker pod without a RayCluster is denied, in a dry run")
    elif tried.stored is not None:
        advice = "check the selectors of its configuration, and that its pods are ready"
        yield "error", f"{pod_description} is unchanged: the webhook is not called", advice
    else:
        yield _other_refusal(tried, pod_description)


def _is_denied_by(tried: Tried, webhook: str) -> bool:
    return f'admission webhook "{webhook}" denied the request' in tried.refused


_FAILED: Final = re.compile(r"failed calling webhook \"([^\"]+)\"")
_CAUSES: Final = (
    (
        r"deadline exceeded|i/o timeout|timed out|no route to host",
        "check the NetworkPolicies and firewalls between API server and pods",
    ),
    (
        r"connection refused|no endpoints available",
        "no pod listens: check that the pods of the webhook are running",
    ),
    (r"x509|certificate", "caBundle and certificate do not match: check ca-bundle above"),
    (
        r"service \"[^\"]*\" not found|no such host",
        "the Service does not exist: apply the manifests again",
    ),
    ("", "check the log of the webhook"),
)
"""Causes of a failed call, by the text of the API server."""


def _other_refusal(tried: Tried, what: str) -> Found:
    """Return the result of a rejection that is not a denial by this webhook: a failed call, a
    missing permission, or another admission plugin.
    """
    failed = _FAILED.search(tried.refused)
    if failed is not None:
        advice = next(remedy for cause, remedy in _CAUSES if re.search(cause, tried.refused))
        return "error", f"the API server cannot call {failed[1]}: {tried.refused}", advice
    message = f"a dry run of {what} is refused"
    if tried.reason == "forbidden" and "admission webhook" not in tried.refused:
        return "unknown", f"{message}: {tried.refused}", "use an account that may create it"
    return (
        "unknown",
        f"{message}, but not by this webhook: {tried.refused}",
        "try another namespace, with -n",
    )


_OF_IDENTITIES: Final = (
    "pod-without-identity",
    "identity-duplicate",
    "worker-id-differs",
    "hostname-differs",
)


def _workers(probed: Probed) -> Iterator[Found]:
    if probed.cluster_report is None:
        yield _unread(probed, "pods", "it is not known whether all workers have an identity")
    else:
        yield from _identities(probed.cluster_report, where(probed.scope), of_files=False)


def _identities(cluster_report: ClusterReport, scope: str, *, of_files: bool) -> Iterator[Found]:
    problems = cluster_report.every_problem
    wrong = [
        problem for problem in problems if problem.level == ERROR and problem.id in _OF_IDENTITIES
    ]
    for problem in wrong:
        message = f"{problem.namespace}/{problem.cluster}: {problem.message}"
        yield "error", message, f"{problem.remedy}: {problem.command}"
    if not wrong:
        workers = sum(
            bool(host.pods)
            for cluster in cluster_report.clusters
            for group in cluster.groups
            for replica in group.replicas
            for host in replica.hosts
        )
        if of_files and not workers:
            yield (
                "unknown",
                "the files contain no worker pods",
                "add those of `kubectl get pods -o yaml`",
            )
        else:
            yield _fine(
                f"{format_count(workers, 'worker')}, each with its own identity, in {scope}"
            )


def _release(text: str) -> tuple[int, int] | None:
    match = _RELEASE.match(text)
    return (int(match[1]), int(match[2])) if match else None
