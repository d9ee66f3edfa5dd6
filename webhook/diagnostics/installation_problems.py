"""Diagnoses of the installation: other webhooks that are called for Ray pods."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from webhook.api import names
from webhook.diagnostics.diagnosis import (
    ERROR,
    Begin,
    ChangingCommand,
    Diagnosis,
    EventRule,
    Symptom,
)
from webhook.diagnostics.messages import format_count, format_names
from webhook.objects.live_objects import Webhook, WebhookConfiguration
from webhook.objects.object_cache import PODS_WEBHOOK

OURS: Final = f".{names.PREFIX.rstrip('/')}"
"""Suffix of the names of webhooks of this program."""

_PREVIOUS: Final = "kuberay-tpu-webhook"
"""Name of the Service of Google's TPU webhook, contained in its webhooks' names."""

_MIGRATION: Final = "docs/install.md#migrate-from-googles-tpu-webhook"

_NAME: Final = "app.kubernetes.io/name"
_KUBERAY: Final = "kuberay"


def second_webhook(configurations: Collection[WebhookConfiguration]) -> Iterator[Symptom]:
    """Another webhook for Ray pods, or a second installation of this one.

    GKE's TPU webhook selects KubeRay's pods and sets `TPU_WORKER_ID` and host names by its own
    count: the order of the two webhooks decides which values pods get. Two installations of this
    webhook do not share their reservations.

    https://github.com/GoogleCloudPlatform/ai-on-gke/tree/main/ray-on-gke/tpu/kuberay-tpu-webhook
    """
    ours = [
        configuration
        for configuration in configurations
        if any(webhook.name == PODS_WEBHOOK for webhook in configuration.webhooks or ())
    ]
    if len(ours) > 1:
        configuration_names = sorted(configuration.metadata.name or "" for configuration in ours)
        yield Symptom(
            f"this webhook is installed {len(ours)} times: {format_names(configuration_names)}",
            "keep one installation, and remove the others",
            f"kubectl get mutatingwebhookconfiguration {' '.join(configuration_names)} -o yaml",
            change=_deletion(configuration_names[1:]),
        )
    for configuration in configurations:
        for webhook in configuration.webhooks or ():
            if is_other_ray_webhook(webhook):
                yield _second(configuration, webhook)


def is_other_ray_webhook(webhook: Webhook) -> bool:
    """Return whether another program's webhook mutates pods selected by a KubeRay or Ray label,
    or is Google's.
    """
    if webhook.name.endswith(OURS) or not webhook.covers("", "pods", "CREATE"):
        return False
    required_labels = webhook.object_selector.required
    return (
        _is_previous(webhook)
        or _KUBERAY in required_labels.get(_NAME, ())
        or any(key.startswith(f"{names.RAY_GROUP}/") for key in required_labels)
    )


def _is_previous(webhook: Webhook) -> bool:
    service = webhook.client_config.service
    return _PREVIOUS in webhook.name or (service is not None and service.name == _PREVIOUS)


def _deletion(configurations: Sequence[str]) -> ChangingCommand:
    does = f"deletes {format_count(len(configurations), 'webhook configuration')}: pods that are "
    does += "created from then on do not pass its webhook"
    return ChangingCommand(
        f"kubectl delete mutatingwebhookconfiguration {' '.join(configurations)}", does
    )


def _second(configuration: WebhookConfiguration, webhook: Webhook) -> Symptom:
    name, previous = configuration.metadata.name or "", _is_previous(webhook)
    return Symptom(
        f"{webhook.name} (of {name}) also changes the pods of Ray: it may set other indices and "
        "host names than this webhook",
        f"follow the steps of {_MIGRATION}" if previous else "remove one of the two",
        f"kubectl get mutatingwebhookconfiguration {name} -o yaml",
        Begin(configuration.metadata.created),
        change=None if previous else _deletion([name]),
    )


INSTALLATION: Final = (Diagnosis(second_webhook, ERROR, event=EventRule("SecondWebhook")),)
