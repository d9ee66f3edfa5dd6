"""Features of KubeRay and Kubernetes that tests need and older releases lack. A test without a
needed feature is skipped with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e.versions import Pair, chosen


@dataclass(frozen=True)
class Need:
    """A gate, a served API or a program: who has it, how its lack is called, and what users have
    without it.
    """

    met: Callable[[Pair], bool]
    lack: str
    """Names `{kuberay}` or `{kubernetes}`."""
    without: str

    def reason(self, *pairs: Pair) -> str:
        """Why a story does not run on these pairs."""
        versions = {
            "kuberay": [each.kuberay for each in pairs],
            "kubernetes": [each.kubernetes for each in pairs],
        }
        return self.lack.format(
            **{name: " and ".join(dict.fromkeys(found)) for name, found in versions.items()}
        )

    def ask(self) -> None:
        """Ends the story here, not run, if the chosen pair lacks this."""
        if not self.met(chosen()):
            pytest.skip(self.reason(chosen()))


OPERATOR: Final = Need(
    lambda pair: pair.operator,
    "no operator of KubeRay {kuberay}, whose Go module is not published",
    "Only the schemas of this KubeRay were served: what its operator does was not seen.",
)
MULTI_HOST_INDEXING: Final = Need(
    lambda pair: pair.multi_host_indexing,
    "no gate RayMultiHostIndexing in KubeRay {kuberay}",
    "Seats are the same: the webhook gives the labels of replica and host that KubeRay does not "
    "give. KubeRay"
    " replaces a host that is lost alone, and not its whole replica. Nothing is said, as nothing "
    "is wrong.",
)
CLIENT_RATE: Final = Need(
    lambda pair: pair.client_rate,
    "no flags for the rate of requests in the operator of KubeRay {kuberay}",
    "A large RayCluster comes up as fast as KubeRay asks the API server; the webhook has no part "
    "in it.",
)
HEADLESS_SERVICE: Final = Need(
    lambda pair: pair.headless_service,
    "no headless service `<cluster>-headless` in KubeRay {kuberay}, which has "
    "`<cluster>-headless-worker-svc`",
    "The host names that the webhook gives do not resolve: they are of the service that is not "
    "there. The webhook does not know KubeRay's version and says nothing; `ray-webhook status` and "
    "the page say `headless-service-missing`. A Service of that name, or `subdomain` in the "
    "template, helps.",
)
POD_GROUPS: Final = Need(
    lambda pair: bool(pair.pod_groups),
    "no PodGroups in Kubernetes {kubernetes}",
    "Pods of RayClusters that ask for scheduling groups run without. Who creates such a pod is "
    "warned that the API"
    " server serves no PodGroups, and the webhook writes it once at its start.",
)
MUTABLE_MIN_COUNT: Final = Need(
    lambda pair: pair.pod_groups != "v1alpha2",
    "no change of the count of a PodGroup in Kubernetes {kubernetes}",
    "A group of pods that grows or shrinks keeps the count it was made with, or is made again.",
)
RESIZE: Final = Need(
    lambda pair: pair.resize,
    "no resize of pods in place in Kubernetes {kubernetes} unless a gate is on",
    "The API server drops the resize policy that the webhook adds, and pods do not grow. No one "
    "says so.",
)
INT32: Final = Need(
    lambda pair: pair.int32,
    "no check of int32 in the API server of Kubernetes {kubernetes}",
    "A RayCluster with a number beyond int32 is stored, and KubeRay, which cannot read it, stops "
    "for all RayClusters.",
)
KUEUE: Final = Need(
    lambda pair: pair.others,
    "no Kueue, which runs beside the newest pair alone",
    "What Kueue does to RayClusters and pods of these versions was not seen.",
)
CERT_MANAGER: Final = Need(
    lambda pair: pair.others,
    "no cert-manager, which runs beside the newest pair alone",
    "How certificates of cert-manager are renewed on these versions was not seen.",
)
KWOK: Final = Need(
    lambda pair: pair.others,
    "no KWOK, which runs beside the newest pair alone",
    "Where the scheduler of these versions puts the hosts of a slice was seen without KWOK's "
    "nodes.",
)
SCHEDULER: Final = Need(
    lambda pair: bool(pair.pod_groups),
    "no scheduler of Kubernetes {kubernetes}, which is built where PodGroups are served",
    "Labels of Nodes on pods that these versions bind were not seen.",
)
FORMER_KUBECTL: Final = Need(
    lambda pair: pair.others,
    "no kubectl of two minors back, which is tried on the newest pair alone",
    "Which kubectl installs the webhook on these versions was seen of their own alone.",
)

ALL: Final = (
    OPERATOR,
    MULTI_HOST_INDEXING,
    CLIENT_RATE,
    HEADLESS_SERVICE,
    POD_GROUPS,
    MUTABLE_MIN_COUNT,
    RESIZE,
    INT32,
    KUEUE,
    CERT_MANAGER,
    KWOK,
    SCHEDULER,
    FORMER_KUBECTL,
)
