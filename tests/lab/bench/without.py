"""`serve` without one of the layers that make a review faster:
`python -m tests.lab.bench.without WHAT serve …`.
"""

import asyncio
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from webhook.api.objects import Pod
from webhook.api.review import Answer
from webhook.cli.main import main
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.httpserver import one_write, server
from webhook.httpserver.one_write import OneWrite
from webhook.metrics import observers
from webhook.mutation.patch_template import PatchCache
from webhook.mutation.pipeline import answer
from webhook.mutation.ray_pod import read_replica


def _patch_cache() -> None:
    def compute(
        _: PatchCache,
        pod: Pod,
        identity: HostIdentity,
        cluster: RayClusterConfig,
        **group: Any,  # noqa: ANN401 - as the cache is called
    ) -> Answer:
        return answer(read_replica(pod, identity, cluster, **group), identity.host)

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
    "nothing": _nothing, "nothing, again": _nothing, "patch cache": _patch_cache,
    "batches": _batches, "one write": _one_write, "sent together": _together,
}  # fmt: skip


if __name__ == "__main__":
    LAYERS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
