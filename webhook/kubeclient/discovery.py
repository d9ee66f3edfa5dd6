"""Discovery: what the API server serves, asked again and again, as an upgrade may change it."""

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

VERSIONS: Final = ("v1beta1", "v1alpha2")
"""The best first: Kubernetes 1.37 serves the one, 1.36 the other, each only with the feature gate
GenericWorkload.
"""

SECONDS: Final = 10.0
"""Deadline of a question."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log: Final = logging.getLogger("webhook.kubeclient")
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 5.0
"""Delays after failures: the service is not ready before the first answer."""
_NUMBER: Final = re.compile("[0-9]{1,9}")
_NEEDED: Final = frozenset({"podgroups", "workloads"})


class Question(Protocol[T_co]):
    """What is asked. `unknown` says in the log what an outage leaves open."""

    unknown: str

    async def ask(self) -> T_co | None:
        """Return what there is, or None. Raises ApiError."""

    def describe(self) -> str:
        """Return the last answer as a sentence for the log."""


class _Resource(Struct):
    name: str = ""


class _Resources(Struct):
    resources: list[_Resource] | None = None


class Discovery(Generic[T]):
    """Asks again and again, and tells its listeners of the first answer and of each change. An
    outage changes nothing.

    `found` is the answer, `answered` whether it is known: a condition of readiness, as a review
    before it could go wrong. An account without the right to ask is told so, and nothing counts as
    found.
    """

    def __init__(self, question: Question[T], seconds: float, world: Clock | None = None) -> None:
        self.found: T | None = None
        self.answered = False
        self._question = question
        self._seconds = seconds
        self._world = world or Clock()
        self._backoff = Backoff(
            min(_FIRST_DELAY, seconds), min(_LONGEST_DELAY, seconds), self._world.random
        )
        self._listeners: list[Callable[[T | None], None]] = []
        self._trouble = ""

    def subscribe(self, listener: Callable[[T | None], None]) -> None:
        """Tell `listener` of answers to come, and of the one there is."""
        self._listeners.append(listener)
        if self.answered:
            listener(self.found)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._world.sleep(await self._pause())

    async def _pause(self) -> float:
        """Ask once, and return how long to wait before the next time."""
        try:
            found = await self._question.ask()
        except ApiError as error:
            if error.reason != self._trouble:
                self._trouble = error.reason
                _log.warning("%s: %s (%s)", self._question.unknown, error, error.reason)
            if error.reason == "forbidden" and not self.answered:
                self._take(None)
            return self._backoff.next(error.retry_after or 0.0)
        self._trouble = ""
        self._backoff.reset()
        if not self.answered or found != self.found:
            new = ", which is new" if self.answered else ""
            self._take(found)
            _log.info("%s%s", self._question.describe(), new)
        return self._seconds

    def _take(self, found: T | None) -> None:
        """Believe an answer, and pass it on."""
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
    """Whether ComputeDomains are served, and the resource claims that pods name them by. It takes
    no rights beyond those of every account.
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
        """Return the version that is served. Raises ApiError."""
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
        """Return the last answer as a sentence for the log."""
        return "ComputeDomains are served by the API server" if self._served else self.missing


class PodGroupsServed:
    """Which version of the API for PodGroups is served. It takes no rights beyond those of every
    account.
    """

    unknown = "PodGroups: whether they are served is not known"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: str | None = None

    async def ask(self) -> str | None:
        """Return the best version that is served. Raises ApiError."""
        self._served = None
        for version in VERSIONS:
            if await _serves(self._api, names.SCHEDULING_GROUP, version, _NEEDED):
                self._served = version
                break
        return self._served

    def describe(self) -> str:
        """Return the last answer as a sentence for the log."""
        served = self._served
        what = f"{names.SCHEDULING_GROUP}/{served} is" if served else "PodGroups are not"
        return f"{what} served by the API server"


class _Version(Struct):
    major: str = ""
    minor: str = ""


class KubernetesRelease:
    """Of which release the API server is, such as (1, 37). It takes no rights beyond those of every
    account.
    """

    unknown = "Kubernetes: the release of Kubernetes is not known"

    def __init__(self, api: Api) -> None:
        self._api = api
        self._release: tuple[int, int] | None = None

    async def ask(self) -> tuple[int, int] | None:
        """Return the release, or None where the API server does not tell. Raises ApiError."""
        self._release = None
        try:
            body = await self._api.get("/version", (), SECONDS)
        except ApiError as error:
            if error.reason == "missing":
                return None
            raise
        found = decoded(body, _Version, "a version")
        # Some clusters append to the minor number: 37+
        major, minor = _NUMBER.match(found.major), _NUMBER.match(found.minor)
        if major and minor:
            self._release = int(major[0]), int(minor[0])
        return self._release

    def describe(self) -> str:
        """Return the last answer as a sentence for the log."""
        if self._release is None:
            return "the API server does not tell its release"
        return f"the API server is of Kubernetes {self._release[0]}.{self._release[1]}"
