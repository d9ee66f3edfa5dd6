"""Leader election: of all processes that share a Lease, one works at a time. The timings are those
of client-go.

https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
https://kubernetes.io/docs/concepts/architecture/leases/
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import time
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field, to_builtins

from webhook.api.objects import ObjectMeta
from webhook.controller.requests import timestamp
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_API: Final = "coordination.k8s.io/v1"
_log: Final = logging.getLogger("webhook.controller")
LEASE_SECONDS: Final = 15.0
"""The lease duration: another process may acquire it after this time without a renewal."""
_RENEW_SECONDS: Final = 10.0
"""The renew deadline: work ends then, well before another process can begin."""
RETRY_SECONDS: Final = 2.0
"""The period between two renewals."""
POLL_SECONDS: Final = 0.5
"""The period between two reads while not leading; a released Lease is acquired this soon."""
_REQUEST_SECONDS: Final = 5.0


class Holding(Struct, rename="camel", frozen=True, omit_defaults=True):
    """The `spec` of a Lease: the leader, the times of acquisition and renewal, and the duration."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Holding = field(default_factory=Holding)


class Lease:
    """One Lease. All methods raise ApiError, with reason `conflict` after another write."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.name = f"{namespace}/{name}"
        self._api = api
        self._metadata = {"namespace": namespace, "name": name}
        self._collection = f"/apis/{_API}/namespaces/{quote(namespace)}/leases"
        self._path = f"{self._collection}/{quote(name)}"

    async def read(self, seconds: float) -> tuple[Holding, str]:
        """Return the holder and the resourceVersion, which is empty if the Lease does not exist."""
        lease = await self._api.find(self._path, _Lease, seconds) or _Lease()
        return lease.spec, lease.metadata.resource_version

    async def write(self, holding: Holding, version: str, seconds: float) -> None:
        """Write the holder if the resourceVersion is unchanged, or create the Lease."""
        spec = to_builtins(holding)
        if not version:
            body = {"apiVersion": _API, "kind": "Lease", "metadata": self._metadata, "spec": spec}
            await self._api.create(self._collection, body, seconds)
            return
        change = {"op": "add", "path": "/spec", "value": spec}
        await self._api.patch(self._path, [change], version, seconds)


Work = Callable[[], Awaitable[None]]


class Leader:
    """Runs `works` while this process holds the Lease, and releases the Lease when cancelled.

    Each process measures time on its own clock, from when it observed the Lease change: clocks need
    not be synchronized.
    """

    def __init__(
        self,
        lease: Lease,
        identity: str,
        works: Sequence[Work],
        time_source: Clock | None = None,
    ) -> None:
        self.leading = False
        self.answered = False
        """Whether the API server has returned the current leader: a condition of readiness."""
        self._lease = lease
        self._identity = identity
        self._works = works
        self._time_source = time_source or Clock()
        self._seen = Holding()
        self._seen_at = 0.0
        self._other = ""
        self._problem = ""

    async def run(self) -> None:
        """Take part in the election until cancelled. Raises the exceptions of the work."""
        try:
            while True:
                while not await self._try():
                    await self._time_source.sleep(
                        POLL_SECONDS * (1 + 0.2 * self._time_source.random())
                    )
                await self._lead()
        finally:
            await self._release()

    async def _lead(self) -> None:
        _log.info("leader: this process leads, by Lease %s", self._lease.name)
        self.leading = True
        try:
            async with asyncio.TaskGroup() as tasks:
                works = [tasks.create_task(_endless(work)) for work in self._works]
                await self._keep()
                for work in works:
                    work.cancel()
        finally:
            self.leading = False

    async def _keep(self) -> None:
        """Renew the Lease; return once it is lost or the renew deadline has passed."""
        renewed = self._time_source.clock()
        while (left := renewed + _RENEW_SECONDS - self._time_source.clock()) > 0:
            await self._time_source.sleep(min(RETRY_SECONDS, left))
            begun = self._time_source.clock()
            if await self._try(max(renewed + _RENEW_SECONDS - begun, 0.0)):
                # From before the request: the API server may have stored it long before its
                # response arrived.
                renewed = begun
            elif self._other:
                message = "leader: %s has taken Lease %s over; this process stands by"
                _log.warning(message, self._other, self._lease.name)
                return
        message = "leader: Lease %s could not be renewed for %g s; this process stops"
        _log.warning(message, self._lease.name, _RENEW_SECONDS)

    async def _try(self, seconds: float = _REQUEST_SECONDS) -> bool:
        """Acquire or renew the Lease, both requests within `seconds`, and return whether this
        process holds it.
        """
        seconds = min(seconds, _REQUEST_SECONDS)
        end = self._time_source.clock() + seconds
        try:
            holding, version = await self._lease.read(seconds)
            self._see(holding)
            if self._other:
                return False
            left = max(end - self._time_source.clock(), 0.0)
            await self._lease.write(self._own(holding), version, left)
        except ApiError as error:
            # A conflict only means that another process was faster.
            if error.reason not in {"conflict", self._problem}:
                self._problem = error.reason
                message = "leader: Lease %s: %s (%s); trying again"
                _log.warning(message, self._lease.name, error, error.reason)
            return False
        self._problem = ""
        return True

    def _see(self, holding: Holding) -> None:
        """Record the observed Lease, and log a new leader."""
        self.answered = True
        now = self._time_source.clock()
        if holding != self._seen:
            self._seen, self._seen_at = holding, now
        holder = holding.holder_identity or ""
        valid = now < self._seen_at + float(holding.lease_duration_seconds or 0)
        other = holder if valid and holder != self._identity else ""
        if other and other != self._other and not self.leading:
            message = "leader: %s leads by Lease %s; this process stands by"
            _log.info(message, other, self._lease.name)
        self._other = other

    def _own(self, holding: Holding) -> Holding:
        """Return the Lease as held by this process, after the given holder."""
        now = timestamp(time())
        mine = holding.holder_identity == self._identity
        return Holding(
            self._identity,
            int(LEASE_SECONDS),
            acquire_time=holding.acquire_time if mine else now,
            renew_time=now,
            lease_transitions=(holding.lease_transitions or 0)
            + (not mine and bool(holding.acquire_time)),
        )

    async def _release(self) -> None:
        """Release the Lease if this process still holds it; if that fails, the Lease expires."""
        try:
            holding, version = await self._lease.read(_REQUEST_SECONDS)
            # Another process may lead by now, and must keep the Lease.
            if holding.holder_identity != self._identity:
                return
            now = timestamp(time())
            # As client-go releases a Lease: without a holder, and with 1 s in place of 0, which is
            # invalid.
            free = Holding(
                "", 1, acquire_time=now, renew_time=now, lease_transitions=holding.lease_transitions
            )
            await self._lease.write(free, version, _REQUEST_SECONDS)
        except ApiError as error:
            message = "leader: Lease %s could not be released: %s (%s)"
            _log.warning(message, self._lease.name, error, error.reason)
        else:
            _log.info("leader: Lease %s was released", self._lease.name)


async def _endless(work: Work) -> None:
    await work()
    raise RuntimeError("a reconciler ended by itself")
