"""Access: who looks is what the API server says, and so is what they may see."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from webhook.dashboard.access import (
    ALLOWED_SECONDS,
    REVIEWED_SECONDS,
    SESSION_SECONDS,
    OwnAccess,
    TokenAccess,
)
from webhook.follow.client import Query
from webhook.follow.errors import ApiError
from webhook.http.site import NotNowError, Sight

ALICE = {
    "username": "alice",
    "uid": "1",
    "groups": ["ml", "system:authenticated"],
    "extra": {"scopes": ["a"]},
}


class Judge:
    """Plays the API server: knows tokens, and who may list what where. It is also the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.down = False
        self.users: dict[str, dict[str, Any]] = {"good": ALICE}
        self.rights: set[tuple[str, str, str]] = set()
        self.asked: list[dict[str, Any]] = []

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Answer a review."""
        del query, deadline
        if self.down:
            raise ApiError("refused", "no connection")
        spec = body["spec"]
        assert isinstance(spec, dict)
        self.asked.append(spec)
        status: dict[str, object]
        if path.endswith("tokenreviews"):
            user = self.users.get(spec["token"])
            status = {"authenticated": True, "user": user} if user else {"error": "unknown"}
        else:
            wanted = spec["resourceAttributes"]
            assert wanted["verb"] == "list"
            kept = {key: ALICE[key] for key in ("uid", "groups", "extra")}
            assert kept.items() <= spec.items()
            right = spec["user"], wanted["resource"], wanted["namespace"]
            status = {"allowed": right in self.rights}
        return msgspec.json.encode({"status": status})

    def allow(self, namespace: str, *resources: str) -> None:
        """Let alice list in a namespace."""
        self.rights |= {("alice", each, namespace) for each in resources or ("rayclusters", "pods")}


@pytest.fixture
def judge() -> Judge:
    """An API server that knows alice."""
    return Judge()


def access_of(judge: Judge) -> TokenAccess:
    """Return the access in a cluster with two namespaces."""
    return TokenAccess(judge, lambda: {"team", "other"}, lambda: judge.now)


def test_a_user_sees_the_namespaces_in_which_he_may_list_both(judge: Judge) -> None:
    judge.allow("team")
    judge.allow("other", "pods")
    sight = asyncio.run(access_of(judge).sight("", "good"))
    assert sight == Sight("alice", frozenset({"team"}))


def test_who_may_list_everywhere_sees_everything(judge: Judge) -> None:
    judge.allow("")
    assert asyncio.run(access_of(judge).sight("", "good")) == Sight("alice", None)


def test_who_may_list_nowhere_sees_nothing(judge: Judge) -> None:
    assert asyncio.run(access_of(judge).sight("", "good")) == Sight("alice", frozenset())


@pytest.mark.parametrize("token", ["", "bad"])
def test_a_token_that_is_not_known_is_nobodys(judge: Judge, token: str) -> None:
    access = access_of(judge)
    assert asyncio.run(access.sight("", token)) is None
    assert asyncio.run(access.enter(token)) is None


def test_an_answer_without_a_yes_is_a_no(judge: Judge) -> None:
    judge.users["good"] = {}
    assert asyncio.run(access_of(judge).sight("", "good")) is None


def test_a_session_lasts_until_it_is_left_or_nobody_used_it(judge: Judge) -> None:
    async def story() -> None:
        access = access_of(judge)
        judge.allow("")
        session = await access.enter("good")
        assert session
        assert await access.sight(session, "") == Sight("alice", None)
        judge.now += SESSION_SECONDS - 1
        assert await access.sight(session, "") is not None
        judge.now += SESSION_SECONDS
        assert await access.sight(session, "") is None
        session = await access.enter("good")
        assert session
        access.leave(session)
        assert await access.sight(session, "") is None

    asyncio.run(story())


def test_a_right_that_is_taken_away_counts_soon(judge: Judge) -> None:
    async def story() -> None:
        access = access_of(judge)
        judge.allow("team")
        assert await access.sight("", "good") == Sight("alice", frozenset({"team"}))
        judge.rights.clear()
        judge.now += ALLOWED_SECONDS
        assert await access.sight("", "good") == Sight("alice", frozenset())
        del judge.users["good"]
        judge.now += REVIEWED_SECONDS
        assert await access.sight("", "good") is None

    asyncio.run(story())


def test_the_api_server_is_not_asked_at_each_look(judge: Judge) -> None:
    async def story() -> None:
        access = access_of(judge)
        for _ in range(10):
            await access.sight("", "good")

    asyncio.run(story())
    assert len(judge.asked) == 1 + 2 * 3  # the token; both rights everywhere and in two namespaces


def test_an_api_server_that_cannot_be_asked_lets_nobody_in(judge: Judge) -> None:
    judge.down = True
    with pytest.raises(NotNowError):
        asyncio.run(access_of(judge).sight("", "good"))
    with pytest.raises(NotNowError):
        asyncio.run(access_of(judge).enter("good"))


def test_on_a_laptop_the_printed_token_lets_in_and_nothing_else() -> None:
    async def story() -> None:
        access = OwnAccess()
        assert await access.enter("guess") is None
        assert await access.sight("", "") is None
        session = await access.enter(access.token)
        assert session
        assert await access.sight(session, "") == Sight("", None)
        assert await access.sight("", access.token) == Sight("", None)
        access.leave("guess")
        assert await access.sight(session, "") is not None
        access.leave(session)
        assert await access.sight(session, "") is None

    asyncio.run(story())
