"""`serve` without one of the layers that make a review faster, or without a feature that makes it
slower: `python -m tests.bench.without WHAT serve …`.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.admission.pod_handler import PodDecision
from webhook.api.objects import Pod, WorkerGroup
from webhook.api.review import Answer
from webhook.cli.main import main
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.httpserver import endpoint, reply, server
from webhook.httpserver.asgi import Send
from webhook.httpserver.protocol import LimitedProtocol, Limits
from webhook.httpserver.reply import send_json
from webhook.logging.batch import Batch
from webhook.metrics import review_observer
from webhook.mutation.answer import answer
from webhook.mutation.patch_template import PatchCache
from webhook.mutation.ray_pod import read_replica


def _patch_cache() -> None:
    def work_out(
        self: PatchCache,
        pod: Pod,
        seat: HostIdentity,
        cluster: RayClusterConfig,
        group: WorkerGroup,
        *,
        holder: str = "",
    ) -> Answer:
        return answer(
            read_replica(pod, seat, cluster, group, holder=holder, policy=self.policy),
            seat.host,
        )

    PatchCache.answer = work_out  # type: ignore[method-assign]


def _batches() -> None:
    def add(self: Batch[Any], thing: Any) -> None:  # noqa: ANN401 - whatever is batched
        self._take([thing])

    Batch.add = add  # type: ignore[method-assign]


def _one_write() -> None:
    def in_two(send: Send, body: bytes, *, last: bool) -> Coroutine[Any, Any, None]:
        # Whose it is shows no longer
        return send_json(lambda message: send(message), body, last=last)  # noqa: PLW0108

    vars(endpoint)[send_json.__name__] = in_two


def _together() -> None:
    async def go_on(_seconds: float) -> None:
        pass

    vars(reply)[asyncio.__name__] = SimpleNamespace(sleep=go_on)


def _nothing() -> None:
    """Leave everything as it is."""


LAYERS: Final[dict[str, Callable[[], None]]] = {
    "nothing": _nothing,
    "patch cache": _patch_cache,
    "batches": _batches,
    "one write": _one_write,
    "sent together": _together,
}


def _places() -> None:
    PodDecision.told = property(lambda self: self.answer)  # type: ignore[method-assign, assignment]
    vars(review_observer)[Pod.__name__] = _Nothing


class _Nothing:
    """What no object is."""


class _Unlimited(HttpToolsProtocol):
    """uvicorn's protocol as it is."""

    proven = True

    def __init__(self, _limits: Limits, _refused: object, *uvicorn: Any) -> None:  # noqa: ANN401 - as its server makes one
        super().__init__(*uvicorn)

    def sweep(self, _now: float) -> None:
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
