"""Access to the dashboard by its one user."""

from hmac import compare_digest
from secrets import token_urlsafe


class Session:
    """Access for those who have the token in the printed address: programs send it as a bearer
    token, and a browser exchanges it for a cookie.

    See docs/contributing/decisions/0025-access-to-the-dashboard.md.
    """

    def __init__(self) -> None:
        self.token = token_urlsafe(32)
        self._cookie = token_urlsafe(32)

    def enter(self, token: str) -> str | None:
        """Return the value of the cookie for the token, None for another token."""
        return self._cookie if _equal(token, self.token) else None

    def is_of(self, cookie: str, bearer: str) -> bool:
        """Return whether a request belongs to the session."""
        return _equal(cookie, self._cookie) or _equal(bearer, self.token)


def _equal(given: str, expected: str) -> bool:
    # In constant time: a comparison that ends early would show how much of a guess is right.
    return compare_digest(given.encode(), expected.encode())
