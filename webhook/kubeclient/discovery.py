"""Discovery: the APIs and version of the API server, checked periodically, because an upgrade may
change them.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from random import random
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from webhook.api import names
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff

VERSIONS: Final = ("v1", "v1beta1", "v1alpha2")
"""In order of preference: v1 is planned for Kubernetes 1.38; 1.37 serves v1beta1 and 1.36 v1alpha2,
each only with the feature gate GenericWorkload.
"""

T = TypeVar("T")

_log: Final = logging.getLogger("webhook.kubeclient")
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 5.0
"""Maximum delay after failures: the service is not ready before the first response."""
_NUMBER: Final = re.compile("[0-9]{1,9}")


class Question(Generic[T]):
    """A query of the API server. `unknown` is logged during an outage: the features that depend on
    the result. But for that of KubeRay, it requires no rights beyond those of every account.
    """

    unknown: str

    def __init__(self, api: Api) -> None:
        self._api = api

    async def ask(self) -> T | None:
        """Return the result, or None. Raises ApiError."""
        raise NotImplementedError

    def describe(self, found: T | None) -> str:
        """Return a result as a sentence for the log."""
        raise NotImplementedError

    async def _serves(self, group: str, version: str, *needed: str) -> bool:
        """Return whether a version of an API group is served with all these resources."""
        resource_list = await self._api.find(f"/apis/{group}/{version}", _Resources) or _Resources()
        return {resource.name for resource in resource_list.resources or ()}.issuperset(needed)


class _Resource(Struct):
    name: str = ""


class _Resources(Struct):
    resources: list[_Resource] | None = None


class Discovery(Generic[T]):
    """Repeats a query, and notifies its listeners of the first result and of each change. An outage
    changes nothing.

    `found` is the result. `answered`: the result is known, a condition of readiness, because
    reviews without the result could be wrong. For an account without the required rights, an error
    is logged, and the result is None.
    """

    def __init__(self, question: Question[T], seconds: float) -> None:
        self.found: T | None = None
        self.answered = False
        self._question = question
        self._seconds = seconds
        first, longest = min(_FIRST_DELAY, seconds), min(_LONGEST_DELAY, seconds)
        self._backoff = Backoff(first, longest, random)
        self._listeners: list[Callable[[T | None], None]] = []
        self._problem = ""

    def subscribe(self, listener: Callable[[T | None], None]) -> None:
        """Call `listener` with future results, and with the current one."""
        self._listeners.append(listener)
        if self.answered:
            listener(self.found)

    async def run(self) -> None:
        """Run the query periodically until cancelled."""
        while True:
            pause = await self._pause()
            await asyncio.sleep(pause)

    async def _pause(self) -> float:
        """Run the query, and return the delay before the next one."""
        try:
            answer = await self._question.ask()
        except ApiError as error:
            if error.reason != self._problem:
                self._problem = error.reason
                _log.warning("%s: %s (%s)", self._question.unknown, error, error.reason)
            # A missing right stays so, and must not keep the process from becoming ready.
            if error.reason == "forbidden" and not self.answered:
                self._take(None)
            return self._backoff.next(error.retry_after)
        self._problem = ""
        self._backoff.reset()
        if not self.answered or answer != self.found:
            new = ", which is new" if self.answered else ""
            self._take(answer)
            _log.info("%s%s", self._question.describe(answer), new)
        return self._seconds

    def _take(self, found: T | None) -> None:
        self.found, self.answered = found, True
        for listener in self._listeners:
            listener(found)


class DomainsServed(Question[str]):
    """The served version of ComputeDomains, with the resource claims that pods refer to them by."""

    unknown = "ComputeDomains: whether they are served is not known"
    missing = (
        f"the API server does not serve {names.COMPUTE_DOMAIN_GROUP}/"
        f"{names.COMPUTE_DOMAIN_VERSION} and {names.RESOURCE_CLAIM_GROUP}/v1; install NVIDIA's DRA "
        "driver"
    )

    async def ask(self) -> str | None:
        version = names.COMPUTE_DOMAIN_VERSION
        if not await self._serves(names.COMPUTE_DOMAIN_GROUP, version, "computedomains"):
            return None
        claims = await self._serves(names.RESOURCE_CLAIM_GROUP, "v1", "resourceclaimtemplates")
        return version if claims else None

    def describe(self, found: str | None) -> str:
        return "ComputeDomains are served by the API server" if found else self.missing


class PodGroupsServed(Question[str]):
    """The preferred version of the PodGroup API that is served."""

    unknown = "PodGroups: whether they are served is not known"

    async def ask(self) -> str | None:
        for version in VERSIONS:
            if await self._serves(names.SCHEDULING_GROUP, version, "podgroups", "workloads"):
                return version
        return None

    def describe(self, found: str | None) -> str:
        subject = f"{names.SCHEDULING_GROUP}/{found} is" if found else "PodGroups are not"
        return f"{subject} served by the API server"


class WorkloadsServed(Question[str]):
    """The preferred version of Kueue's API."""

    unknown = "Workloads of Kueue: whether they are served is not known"

    async def ask(self) -> str | None:
        api_group = await self._api.find(f"/apis/{names.KUEUE_GROUP}", _ApiGroup)
        return api_group.preferred_version.version if api_group else None

    def describe(self, found: str | None) -> str:
        subject = f"{names.KUEUE_GROUP}/{found} is" if found else "Workloads of Kueue are not"
        return f"{subject} served by the API server"


class _Preferred(Struct):
    version: str = ""


class _ApiGroup(Struct, rename="camel"):
    preferred_version: _Preferred = field(default_factory=_Preferred)


class _ServerVersion(Struct):
    major: str = ""
    minor: str = ""


class KubernetesRelease(Question[tuple[int, int]]):
    """The release of the API server, such as (1, 37); None if it does not report it."""

    unknown = "Kubernetes: the release of Kubernetes is not known"

    async def ask(self) -> tuple[int, int] | None:
        version_info = await self._api.find("/version", _ServerVersion) or _ServerVersion()
        # Some clusters append a plus sign to the minor number: 37+
        major, minor = _NUMBER.match(version_info.major), _NUMBER.match(version_info.minor)
        return (int(major[0]), int(minor[0])) if major and minor else None

    def describe(self, found: tuple[int, int] | None) -> str:
        if found is None:
            return "the release of the API server is unknown"
        return f"the API server is of Kubernetes {found[0]}.{found[1]}"
