"""The KubeRay operator as a process for a test control plane."""

from collections.abc import Mapping, Sequence

from tests.e2e import needs
from tests.e2e.control_plane import ControlPlane, pairs
from tests.e2e.credentials import MASTERS
from tests.e2e.process import Peer, free_port, says_ready

USER = "system:serviceaccount:ray-system:kuberay-operator"
"""The name under which the operator asks, as in an installation; it may do everything here."""


REQUEUE = {"RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "20"}
"""KubeRay waits 300 s for a pod that was deleted before it saw it."""

UNTHROTTLED = ("--qps=2000", "--burst=4000")
"""Flags of an operator that asks the API server as often as it likes."""


class Operator(Peer):
    """Skips without its gate. `multi_host_indexing` None is on, where there is the gate."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        multi_host_indexing: bool | None = None,
        reconcile_concurrency: int = 1,
        feature_gates: Mapping[str, bool] | None = None,
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if multi_host_indexing:
            needs.MULTI_HOST_INDEXING.ask()
        health_port = free_port()
        # An operator that does not know a gate does not start
        indexing = {"RayMultiHostIndexing": multi_host_indexing is not False}
        gates = {**(indexing if needs.MULTI_HOST_INDEXING.is_met else {}), **(feature_gates or {})}
        kubeconfig = plane.kubeconfig(USER, [MASTERS, "system:serviceaccounts"])
        command = [
            f"--kubeconfig={kubeconfig}", f"--feature-gates={pairs(gates)}",
            f"--reconcile-concurrency={reconcile_concurrency}", "--enable-leader-election=false",
            f"--health-probe-bind-address=127.0.0.1:{health_port}",
            f"--metrics-addr=127.0.0.1:{free_port()}", *flags,
        ]  # fmt: skip
        program = plane.program("kuberay-operator", command, {**REQUEUE, **(environment or {})})
        super().__init__(program, lambda: says_ready(health_port))
