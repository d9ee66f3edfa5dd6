"""Discovery: the APIs and version of the API server, checked periodically, because an upgrade may
change them.
"""

import logging
import re
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from webhook.api import names
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff, Clock
from webhook.kubeclient.wire import decoded

VERSIONS: Final = ("v1", "v1beta1", "v1alpha2")
"""In order of preference: v1 is planned for Kubernetes 1.38; 1.37 serves v1beta1 and 1.36 v1alpha2,
each only with the feature gate GenericWorkload.
"""

SECONDS: Final = 10.0
"""Deadline of a request."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log: Final = logging.getLogger("webhook.kubeclient")
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 5.0
"""Maximum delay after failures: the service is not ready before the first response."""
_NUMBER: Final = re.compile("[0-9]{1,9}")
_NEEDED: Final = frozenset({"podgroups", "workloads"})


class Question(Protocol[T_co]):
    """A query of the API server. `unknown` is logged during an outage: the features that depend on
    the result.
    """

    unknown: str

    async def ask(self) -> T_co | None:
        """Return the result, or None. Raises ApiError."""

    def describe(self) -> str:
        """Return the last result as a sentence for the log."""


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

    def __init__(
        self, question: Question[T], seconds: float, time_source: Clock | None = None
    ) -> None:
        self.found: T | None = None
        self.answered = False
        self._question = question
        self._seconds = seconds
        self._time_source = time_source or Clock()
        self._backoff = Backoff(
            min(_FIRST_DELAY, seconds), min(_LONGEST_DELAY, seconds), self._time_source.random
        )
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
            await self._time_source.sleep(await self._pause())

    async def _pause(self) -> float:
        """Run the query, and return the delay before the next one."""
        try:
            found = await self._question.ask()
        except ApiError as error:
            if error.reason != self._problem:
                self._problem = error.reason
                _log.warning("%s: %s (%s)", self._question.unknown, error, error.reason)
            if error.reason == "forbidden" and not self.answered:
                self._take(None)
            return self._backoff.next(error.retry_after or 0.0)
        self._problem = ""
        self._backoff.reset()
        if not self.answered or found != self.found:
            new = ", which is new" if self.answered else ""
            self._take(found)
            _log.info("%s%s", self._question.describe(), new)
        return self._seconds

    def _take(self, found: T | None) -> None:
        self.found, self.answered = found, True
        for listener in self._listeners:
            listener(found)


async def _serves(api: Api, group: str, version: str, needed: frozenset[str]) -> bool:
    """Return whether a version of an API group is served with all these resources. Raises
    ApiError.
    """
    try:
        body = await api.get(f"/apis/{group}/{version}", (), SECONDS)
    except ApiError as error:
        if error.reason == "missing":
            return False
        raise
    resources = decoded(body, _Resources, "a list of resources").resources or []
    return {resource.name for resource in resources} >= needed


class DomainsServed:
    """Whether ComputeDomains are served, and the resource claims that pods refer to them by. It
    requires no rights beyond those of every account.
    """

    unknown = "ComputeDomains: whether they are served is not known"
    missing = (
        f"the API server does not serve {names.COMPUTE_DOMAIN_GROUP}/"
        f"{names.COMPUTE_DOMAIN_VERSION} and {names.RESOURCE_CLAIM_GROUP}/v1; install NVIDIA's DRA "
        "driver"
    )

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: str | None = None

    async def ask(self) -> str | None:
        """Return the served version. Raises ApiError."""
        version = names.COMPUTE_DOMAIN_VERSION
        domains = await _serves(
            self._api, names.COMPUTE_DOMAIN_GROUP, version, frozenset({"computedomains"})
        )
        claims = domains and await _serves(
            self._api, names.RESOURCE_CLAIM_GROUP, "v1", frozenset({"resourceclaimtemplates"})
        )
        self._served = version if claims else None
        return self._served

    def describe(self) -> str:
        return "ComputeDomains are served by the API server" if self._served else self.missing


class PodGroupsServed:
    """The served version of the PodGroup API. It requires no rights beyond those of every
    account.
    """

    unknown = "PodGroups: whether they are served is not known"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: str | None = None

    async def ask(self) -> str | None:
        """Return the preferred version that is served. Raises ApiError."""
        self._served = None
        for version in VERSIONS:
            if await _serves(self._api, names.SCHEDULING_GROUP, version, _NEEDED):
                self._served = version
                break
        return self._served

    def describe(self) -> str:
        served = self._served
        what = f"{names.SCHEDULING_GROUP}/{served} is" if served else "PodGroups are not"
        return f"{what} served by the API server"


class _Version(Struct):
    major: str = ""
    minor: str = ""


class KubernetesRelease:
    """The release of the API server, such as (1, 37). It requires no rights beyond those of every
    account.
    """

    unknown = "Kubernetes: the release of Kubernetes is not known"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._release: tuple[int, int] | None = None

    async def ask(self) -> tuple[int, int] | None:
        """Return the release, or None if the API server does not report it. Raises ApiError."""
        self._release = None
        try:
            body = await self._api.get("/version", (), SECONDS)
        except ApiError as error:
            if error.reason == "missing":
                return None
            raise
        found = decoded(body, _Version, "a version")
        # Some clusters append a plus sign to the minor number: 37+
        major, minor = _NUMBER.match(found.major), _NUMBER.match(found.minor)
        if major and minor:
            self._release = int(major[0]), int(minor[0])
        return self._release

    def describe(self) -> str:
        if self._release is None:
            return "the release of the API server is unknown"
        return f"the API server is of Kubernetes {self._release[0]}.{self._release[1]}"
