"""`serve` without one of the layers that make a review faster, or without a feature that makes it
slower: `python -m tests.lab.bench.without WHAT serve …`.
"""

import asyncio
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.admission.pod_handler import PodDecision
from webhook.api.objects import Pod
from webhook.api.review import Answer
from webhook.cli.main import main
from webhook.groups.identity import HostIdentity
from webhook.httpserver import one_write, server
from webhook.httpserver.one_write import OneWrite
from webhook.httpserver.protocol import LimitedProtocol, PortLimits
from webhook.metrics import observers
from webhook.mutation.patch_template import PatchCache
from webhook.mutation.pipeline import answer
from webhook.mutation.ray_pod import read_replica


def _patch_cache() -> None:
    def compute(
        _: PatchCache,
        pod: Pod,
        identity: HostIdentity,
        *group: Any,  # noqa: ANN401 - as the cache is called
        holder: str,
    ) -> Answer:
        cluster, row, policy = group
        replica = read_replica(pod, identity, cluster, row, holder=holder, policy=policy)
        return answer(replica, identity.host)

    PatchCache.answer = compute  # type: ignore[assignment, method-assign]


def _batches() -> None:
    vars(observers)["_BATCH_LINES"] = 1


def _one_write() -> None:
    vars(server)[OneWrite.__name__] = lambda app: app


def _together() -> None:
    async def go_on(_seconds: float) -> None:
        pass

    vars(one_write)[asyncio.__name__] = SimpleNamespace(sleep=go_on)


def _nothing() -> None:
    """Leave everything as it is."""


LAYERS: Final[dict[str, Callable[[], None]]] = {
    "nothing": _nothing, "patch cache": _patch_cache, "batches": _batches, "one write": _one_write,
    "sent together": _together,
}  # fmt: skip


def _places() -> None:
    PodDecision.located = property(lambda self: self.answer)  # type: ignore[method-assign, assignment]
    vars(observers)[Pod.__name__] = _Nothing


class _Nothing:
    """What no object is."""


class _Unlimited(HttpToolsProtocol):
    """uvicorn's protocol as it is."""

    proven = True

    def __init__(self, _limits: PortLimits, _refused: object, *uvicorn: Any) -> None:  # noqa: ANN401 - as its server makes one
        super().__init__(*uvicorn)

    def close_idle(self, _now: float) -> None:
        """Close nothing."""


def _limits() -> None:
    vars(server)[LimitedProtocol.__name__] = _Unlimited


COSTS: Final[dict[str, Callable[[], None]]] = {"places": _places, "limits": _limits}
"""The places of pods in the log and in what the audit log keeps, and the limits of connections:
what may cost something.
"""

if __name__ == "__main__":
    (LAYERS | COSTS)[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
