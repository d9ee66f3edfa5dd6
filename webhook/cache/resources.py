"""Resources of `status`: the codec of each kind, and the selected objects."""

from typing import Final, TypeVar

import msgspec

from webhook.api import names
from webhook.diagnostics.live_objects import (
    LiveCluster,
    LiveEvent,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)
from webhook.diagnostics.observation import END, REFUSALS
from webhook.kubeclient.wire import (
    Codec,
    Event,
    Page,
    Watched,
)

T = TypeVar("T", bound=Watched)

PODS: Final = f"{names.LABEL_NODE_TYPE} in ({names.NODE_TYPE_HEAD},{names.NODE_TYPE_WORKER})"
REASONS: Final = (*REFUSALS, END)
"""The reasons of Events that diagnoses read."""

CONFIGURATION_PLURAL: Final = "mutatingwebhookconfigurations"
CONFIGURATIONS: Final = f"/apis/admissionregistration.k8s.io/v1/{CONFIGURATION_PLURAL}"


def _codec(kind: type[T]) -> Codec[T]:
    # mypy does not allow a variable as a type; msgspec does.
    page: type[Page[T]] = Page[kind]  # type: ignore[valid-type]
    event: type[Event[T]] = Event[kind]  # type: ignore[valid-type]
    return Codec(
        msgspec.json.Decoder(kind), msgspec.json.Decoder(page), msgspec.json.Decoder(event)
    )


CLUSTER: Final = _codec(LiveCluster)
POD: Final = _codec(LivePod)
EVENT: Final = _codec(LiveEvent)
POD_GROUP: Final = _codec(LivePodGroup)
NAMED: Final = _codec(Named)
CONFIGURATION: Final = _codec(WebhookConfiguration)


def within(root: str, namespace: str, plural: str) -> str:
    """Return the path of a resource in a namespace, or in all if it is empty."""
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
