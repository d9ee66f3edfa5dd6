"""Access to the dashboard: sessions, and the users of tokens."""

from collections.abc import Callable, Collection
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from time import monotonic
from typing import Final

from msgspec import Struct

from webhook.dashboard.rights import NotNowError, Reviews, Rights, Shared, User, UserScope
from webhook.kubeclient.client import Api
from webhook.kubeclient.timeouts import RateLimit

REVIEWED_SECONDS: Final = 60.0
"""The lifetime of a cached TokenReview."""
SESSION_SECONDS: Final = 12 * 3600.0
"""The lifetime of a session without requests."""
UNKNOWN_AT_ONCE: Final = 20
"""The burst of reviews for tokens that were never accepted."""
UNKNOWN_EACH_SECOND: Final = 2.0
"""The rate of reviews per second after the burst."""
_SESSIONS: Final = 1000
_TOKENS: Final = 1000
_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path


class OwnAccess:
    """Grants anyone with the printed address access to all that this process can read. `tokens`:
    whether users have tokens of their own.

    See docs/contributing/decisions/0025-access-to-the-dashboard.md.
    """

    tokens = False

    def __init__(self) -> None:
        self.token = token_urlsafe(32)
        self._session = token_urlsafe(32)

    async def enter(self, token: str) -> str | None:
        """Return a new session for a token, None if not accepted."""
        return self._session if _equal(token, self.token) else None

    def leave(self, session: str) -> None:
        """Invalidate the session for all who share it."""
        if _equal(session, self._session):
            self._session = token_urlsafe(32)

    async def sight(self, session: str, bearer: str) -> UserScope | None:
        if _equal(session, self._session) or _equal(bearer, self.token):
            return UserScope("", None)
        return None


class _Session(Struct):
    token: str
    used: float


class TokenAccess:
    """Grants users whose token the API server accepts access to the namespaces in which they can
    list RayClusters and pods. `namespaces` are the namespaces with any of these.
    """

    tokens = True

    def __init__(
        self,
        requests: Api,
        namespaces: Callable[[], Collection[str]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._namespaces = namespaces
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._reviews = Reviews(requests)
        self._rights = Rights(self._reviews, clock)
        self._accepted: Shared[bytes, User | None] = Shared(_TOKENS, REVIEWED_SECONDS, clock)
        self._unknown: Shared[bytes, User | None] = Shared(_TOKENS, REVIEWED_SECONDS, clock)
        self._pace = RateLimit(UNKNOWN_AT_ONCE, UNKNOWN_EACH_SECOND, clock)

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
        self._sessions.pop(session, None)

    async def sight(self, session: str, bearer: str) -> UserScope | None:
        """Return a user and the namespaces that the user can see. Raises NotNowError."""
        token = bearer or self._token(session)
        user = await self._user(token) if token else None
        if user is None:
            return None
        name, may = str(user.get("username", "")), await self._rights.namespaces(user)
        return UserScope(name, may if may is None else may & frozenset(self._namespaces()))

    def _token(self, session: str) -> str:
        held, now = self._sessions.get(session), self._clock()
        if held is None or now - held.used >= SESSION_SECONDS:
            return ""
        held.used = now
        return held.token

    async def _user(self, token: str) -> User | None:
        key = sha256(token.encode()).digest()
        if key in self._accepted:
            return await self._accepted.get(key, lambda: self._review(token))
        user = await self._unknown.get(key, lambda: self._review_unknown(token))
        if user is not None:
            self._accepted.put(key, user)
        return user

    async def _review_unknown(self, token: str) -> User | None:
        if not self._pace.spend():
            msg = "too many tokens that are not known were sent to this page; try again in a moment"
            raise NotNowError(msg)
        return await self._review(token)

    async def _review(self, token: str) -> User | None:
        status = await self._reviews.status(
            _TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        user: User | None = status.get("user") if status.get("authenticated") is True else None
        return user or None


Access = OwnAccess | TokenAccess


def _equal(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(), wanted.encode())
