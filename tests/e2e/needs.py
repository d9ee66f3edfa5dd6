"""Features of KubeRay and Kubernetes that tests need and older releases lack. A test without a
needed feature is skipped with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e.versions import NEWEST, Pair, chosen, minor


@dataclass(frozen=True)
class Need:
    """A gate, a served API or a program: the pairs that have it, the name of its lack, and what is
    different for users without it.
    """

    met: Callable[[Pair], bool]
    lack: str
    """Names `{kuberay}` or `{kubernetes}`."""
    without: str = ""
    """Empty if only the tests need it."""

    def reason(self, *pairs: Pair) -> str:
        """Return why a story does not run on these pairs."""
        versions = {
            "kuberay": [each.kuberay for each in pairs],
            "kubernetes": [each.kubernetes for each in pairs],
        }
        return self.lack.format(
            **{name: " and ".join(dict.fromkeys(found)) for name, found in versions.items()}
        )

    @property
    def is_met(self) -> bool:
        return self.met(chosen())

    def ask(self) -> None:
        """Ends the story here, not run, if the chosen pair lacks this."""
        if not self.is_met:
            pytest.skip(self.reason(chosen()))


MULTI_HOST_INDEXING: Final = Need(
    lambda pair: minor(pair.kuberay) >= 5,
    "no gate RayMultiHostIndexing in KubeRay {kuberay}",
    "The webhook sets the identities instead. KubeRay replaces a lost host, but not the other "
    "hosts of its replica.",
)
CLIENT_RATE: Final = Need(
    lambda pair: minor(pair.kuberay) >= 5,
    "no flags for the rate of requests in the operator of KubeRay {kuberay}",
    "A large RayCluster starts more slowly, because KubeRay limits its own requests.",
)
HEADLESS_SERVICE: Final = Need(
    lambda pair: minor(pair.kuberay) >= 4,
    "no headless service `<cluster>-headless` in KubeRay {kuberay}, which has "
    "`<cluster>-headless-worker-svc`",
    "Host names do not resolve, and `ray-webhook status` reports `headless-service-missing`. "
    "Create a Service with that name, or set `subdomain` in the template.",
)
POD_GROUPS: Final = Need(
    lambda pair: bool(pair.pod_groups),
    "no PodGroups in Kubernetes {kubernetes}",
    "Pods of RayClusters with `admission.ray.io/scheduling-group` run without a PodGroup, with a "
    "warning.",
)
MUTABLE_MIN_COUNT: Final = Need(
    lambda pair: pair.pod_groups != "v1alpha2",
    "no change of the count of a PodGroup in Kubernetes {kubernetes}",
    "The PodGroup of a worker group whose size changes is recreated after its pods have ended.",
)
RESIZE: Final = Need(
    lambda pair: minor(pair.kubernetes) >= 33,
    "no resize of pods in place in Kubernetes {kubernetes} unless a gate is on",
    "The API server drops the resize policy without a warning, and pods keep their size.",
)
INT32: Final = Need(
    lambda pair: minor(pair.kubernetes) >= 36,
    "no check of int32 in the API server of Kubernetes {kubernetes}",
    "A RayCluster with a number above int32 is stored, and KubeRay, which cannot decode it, stops "
    "for all RayClusters. The policy `decodablePolicy` of the chart denies it.",
)
OTHERS: Final = Need(
    lambda pair: pair == NEWEST,
    "no Kueue, no cert-manager, no Helm 4 and no older kubectl, which run on the newest pair alone",
)
SCHEDULER: Final = Need(
    lambda pair: bool(pair.pod_groups),
    "no scheduler of Kubernetes {kubernetes}, which is built where PodGroups are served",
)

ALL: Final = (
    MULTI_HOST_INDEXING, CLIENT_RATE, HEADLESS_SERVICE, POD_GROUPS, MUTABLE_MIN_COUNT, RESIZE,
    INT32, OTHERS, SCHEDULER,
)  # fmt: skip
