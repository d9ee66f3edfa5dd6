"""The pairs of KubeRay and Kubernetes of the test matrix; the environment chooses one."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PINS: Final = Path(__file__).resolve().parent / "tools"
"""The go.mod and go.sum of each program, in a folder for each version where there are several."""

KUBERAY_VARIABLE: Final = "E2E_KUBERAY"
KUBERNETES_VARIABLE: Final = "E2E_KUBERNETES"
SOURCE_VARIABLE: Final = "KUBERAY_SOURCE"
"""The folder `ray-operator` of the sources of `UNPUBLISHED`."""


@dataclass(frozen=True)
class Pair:
    """A version of each, such as 1.6.2 and 1.37.0."""

    kuberay: str
    kubernetes: str

    def __str__(self) -> str:
        return f"KubeRay {self.kuberay} on Kubernetes {self.kubernetes}"

    def of(self, module: str) -> str:
        """The version of a module; "" for one that is the same in all pairs."""
        return {"kuberay": self.kuberay, "kubernetes": self.kubernetes}.get(module, "")

    @property
    def pod_groups(self) -> str:
        """The version of scheduling.k8s.io of PodGroups where their gate is on; "" for none."""
        return {37: "v1beta1", 36: "v1alpha2"}.get(minor(self.kubernetes), "")

    @property
    def pod_group_gates(self) -> dict[str, bool]:
        """The gates that PodGroups need, all off by default; 1.37 has merged two."""
        scheduler = {"GangScheduling": True} if self.pod_groups == "v1alpha2" else {}
        return {"GenericWorkload": True, **scheduler}


NEWEST: Final = Pair("1.6.2", "1.37.0")
"""What runs unless something else is asked for."""

PREVIOUS_KUBERNETES: Final = "1.35.4"
"""Whose kubectl stories of the newest pair use too: two minors back, which many people still have,
and one more than Kubernetes promises to support.
"""

OLD: Final = Pair("1.4.2", "1.34.4")
"""The pair that `.ci/run` runs beside the newest: KubeRay without the gate RayMultiHostIndexing,
and an API server that takes numbers beyond int32. It serves no PodGroups, so v1alpha2, which
Kubernetes 1.36 alone has, runs at night.
"""

UNPUBLISHED: Final = Pair("1.7.0", NEWEST.kubernetes)
"""KubeRay whose Go module is not published: it runs where `SOURCE_VARIABLE` names its sources."""

MATRIX: Final = (
    NEWEST, Pair("1.5.1", NEWEST.kubernetes), Pair("1.4.2", NEWEST.kubernetes),
    Pair("1.3.2", NEWEST.kubernetes), Pair(NEWEST.kuberay, "1.36.3"),
    Pair(NEWEST.kuberay, "1.35.4"), Pair(NEWEST.kuberay, "1.34.4"), Pair(NEWEST.kuberay, "1.30.14"),
    OLD, UNPUBLISHED,
)  # fmt: skip


def chosen() -> Pair:
    return Pair(
        os.environ.get(KUBERAY_VARIABLE) or NEWEST.kuberay,
        os.environ.get(KUBERNETES_VARIABLE) or NEWEST.kubernetes,
    )


def source_folder() -> Path | None:
    """Return the given sources of the unpublished KubeRay, or None without them."""
    folder = os.environ.get(SOURCE_VARIABLE)
    return Path(folder).resolve() if folder else None


def minor(version: str) -> int:
    return int(version.split(".")[1])
