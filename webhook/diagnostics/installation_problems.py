"""Diagnoses of the installation: other webhooks that are called for Ray pods."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from webhook.api import names
from webhook.diagnostics.diagnosis import ERROR, Begin, Change, Diagnosis, Event, Symptom
from webhook.diagnostics.live_objects import Webhook, WebhookConfiguration
from webhook.diagnostics.messages import counted, listed
from webhook.diagnostics.object_cache import PODS_WEBHOOK

OURS: Final = f".{names.PREFIX.rstrip('/')}"
"""Suffix of the names of webhooks of this program."""

PREVIOUS: Final = "kuberay-tpu-webhook"
"""Name of the Deployment and Service of Google's TPU webhook, contained in its webhooks' names."""

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
        each
        for each in configurations
        if any(webhook.name == PODS_WEBHOOK for webhook in each.webhooks or ())
    ]
    if len(ours) > 1:
        called = sorted(each.metadata.name or "" for each in ours)
        yield Symptom(
            f"this webhook is installed {len(ours)} times: {listed(called)}",
            "keep one installation, and remove the others",
            f"kubectl get mutatingwebhookconfiguration {' '.join(called)} -o yaml",
            change=_deletion(called[1:]),
        )
    for configuration in configurations:
        for webhook in configuration.webhooks or ():
            if made_for_ray(webhook):
                yield _second(configuration, webhook)


def made_for_ray(webhook: Webhook) -> bool:
    """Return whether another program's webhook mutates pods selected by a KubeRay or Ray label."""
    if webhook.name.endswith(OURS) or not webhook.asked("", "pods", "CREATE"):
        return False
    wanted = webhook.object_selector.wanted
    return _KUBERAY in wanted.get(_NAME, ()) or any(
        key.startswith(f"{names.RAY_GROUP}/") for key in wanted
    )


def _deletion(configurations: Sequence[str]) -> Change:
    does = (
        f"deletes {counted(len(configurations), 'webhook configuration')}: pods that are created "
    )
    does += "from then on do not pass its webhook"
    return Change(f"kubectl delete mutatingwebhookconfiguration {' '.join(configurations)}", does)


def _second(configuration: WebhookConfiguration, webhook: Webhook) -> Symptom:
    name = configuration.metadata.name or ""
    return Symptom(
        f"{webhook.name} (of {name}) also changes the pods of Ray: it may set other indices and "
        "host names than this webhook",
        f"`ray-webhook migrate --from {PREVIOUS}` shows the steps"
        if PREVIOUS in webhook.name
        else "remove one of the two",
        f"kubectl get mutatingwebhookconfiguration {name} -o yaml",
        Begin(configuration.metadata.created),
        change=None if PREVIOUS in webhook.name else _deletion([name]),
    )


INSTALLATION: Final = (Diagnosis(second_webhook, ERROR, event=Event("SecondWebhook")),)
