"""The deadline of a review."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from webhook.api.review import NotNow

T = TypeVar("T")

REVIEW_SECONDS: Final = 8.0
"""The API server's default timeout for a webhook is 10 s. After a timeout, it reports no reason."""


async def in_time(work: Awaitable[T]) -> T:
    """Return the result of work with I/O. Raises NotNow before the API server's timeout."""
    try:
        async with asyncio.timeout(REVIEW_SECONDS):
            return await work
    except TimeoutError as error:
        msg = (
            f"the reads and writes that this review needs took more than {REVIEW_SECONDS:g} s: "
            "the API server or etcd is slow, or many pods of this group wait; KubeRay tries again"
        )
        raise NotNow(msg) from error
