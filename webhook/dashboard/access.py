"""Access: who looks, and which namespaces they may see."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from time import monotonic
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from webhook.follow.client import Query
from webhook.follow.errors import ApiError
from webhook.http.site import NotNowError, Sight
from webhook.kube import names

REVIEWED_SECONDS: Final = 60.0
"""How long the API server's word about a token is believed."""
ALLOWED_SECONDS: Final = 30.0
"""How long its word about a right is."""
SESSION_SECONDS: Final = 12 * 3600.0
"""How long a session lasts that nobody uses."""
_SESSIONS: Final = 1000
_REMEMBERED: Final = 10_000
_AT_ONCE: Final = 8
_DEADLINE: Final = 10.0
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_NEEDED: Final = ((names.RAY_GROUP, "rayclusters"), ("", "pods"))
"""What one has to be allowed to list in a namespace to see it."""

User = dict[str, Any]
"""`status.user` of a TokenReview."""


class Asker(Protocol):
    """Who is asked."""

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Return what the API server makes of an object. Raises ApiError."""


class Access(Protocol):
    """Tells who looks. `tokens` says whether people have tokens of their own."""

    tokens: bool

    async def enter(self, token: str) -> str | None:
        """Return a new session for a token, None when it is not accepted. Raises NotNowError."""

    def leave(self, session: str) -> None:
        """End a session."""

    async def sight(self, session: str, bearer: str) -> Sight | None:
        """Return who looks, by a session or a bearer token. Raises NotNowError."""


class OwnAccess:
    """Lets in whoever has the address that was printed: to all that this process may read.

    See docs/decisions/0025-who-may-look.md.
    """

    tokens = False

    def __init__(self) -> None:
        self.token = token_urlsafe(32)
        self._session = token_urlsafe(32)

    async def enter(self, token: str) -> str | None:
        """Return the session, for the token."""
        return self._session if _equal(token, self.token) else None

    def leave(self, session: str) -> None:
        """Let all that have the session lose it."""
        if _equal(session, self._session):
            self._session = token_urlsafe(32)

    async def sight(self, session: str, bearer: str) -> Sight | None:
        """Return that everything may be seen."""
        if _equal(session, self._session) or _equal(bearer, self.token):
            return Sight("", None)
        return None


class _Session(Struct):
    token: str
    used: float


class TokenAccess:
    """Asks the API server whose token it is, and in which namespaces they may list RayClusters and
    pods. `namespaces` are those that there is something to see in.
    """

    tokens = True

    def __init__(
        self,
        asker: Asker,
        namespaces: Callable[[], Collection[str]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._asker = asker
        self._namespaces = namespaces
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._users: dict[bytes, tuple[float, User | None]] = {}
        self._allowed: dict[tuple[bytes, str], tuple[float, bool]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def enter(self, token: str) -> str | None:
        """Return a new session for a token that the API server accepts. Raises NotNowError."""
        if not token or await self._user(token) is None:
            return None
        now = self._clock()
        kept = {
            session: held
            for session, held in self._sessions.items()
            if now - held.used < SESSION_SECONDS
        }
        while len(kept) >= _SESSIONS:
            del kept[min(kept, key=lambda session: kept[session].used)]
        session = token_urlsafe(32)
        self._sessions = {**kept, session: _Session(token, now)}
        return session

    def leave(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(session, None)

    async def sight(self, session: str, bearer: str) -> Sight | None:
        """Return who looks, and where they may list what the page shows. Raises NotNowError."""
        token = bearer or self._token(session)
        user = await self._user(token) if token else None
        if user is None:
            return None
        name = str(user.get("username", ""))
        if await self._may(user, ""):
            return Sight(name, None)
        every = sorted(self._namespaces())
        may = await asyncio.gather(*(self._may(user, namespace) for namespace in every))
        seen = (namespace for namespace, allowed in zip(every, may, strict=True) if allowed)
        return Sight(name, frozenset(seen))

    def _token(self, session: str) -> str:
        held, now = self._sessions.get(session), self._clock()
        if held is None or now - held.used >= SESSION_SECONDS:
            return ""
        held.used = now
        return held.token

    async def _user(self, token: str) -> User | None:
        """Return whose token it is; None when the API server does not accept it."""
        key, now = sha256(token.encode()).digest(), self._clock()
        known = self._users.get(key)
        if known is not None and now < known[0]:
            return known[1]
        answer = await self._ask(
            _TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        user = answer.get("user") if answer.get("authenticated") is True else None
        if len(self._users) >= _REMEMBERED:
            self._users = {}
        self._users[key] = (now + REVIEWED_SECONDS, user)
        return user

    async def _may(self, user: User, namespace: str) -> bool:
        """Tell whether a user may list RayClusters and pods in a namespace, or in all of them."""
        who = msgspec.json.encode(user, order="sorted")
        now = self._clock()
        known = self._allowed.get((who, namespace))
        if known is not None and now < known[0]:
            return known[1]
        allowed = all([await self._allows(user, namespace, *what) for what in _NEEDED])
        if len(self._allowed) >= _REMEMBERED:
            self._allowed = {}
        self._allowed[who, namespace] = (now + ALLOWED_SECONDS, allowed)
        return allowed

    async def _allows(self, user: User, namespace: str, group: str, resource: str) -> bool:
        attributes = {"verb": "list", "group": group, "resource": resource, "namespace": namespace}
        spec: dict[str, object] = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "resourceAttributes": attributes,
        }
        answer = await self._ask(
            _ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return answer.get("allowed") is True

    async def _ask(
        self, path: str, version: str, kind: str, spec: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the status of a review. Raises NotNowError."""
        body = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        try:
            async with self._room:
                answer = await self._asker.post(path, (), body, _DEADLINE)
        except ApiError as error:
            msg = f"the API server cannot be asked who you are: {error}"
            raise NotNowError(msg) from error
        found: dict[str, Any] = msgspec.json.decode(answer).get("status") or {}
        return found


def _equal(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(), wanted.encode())
