"""Access: users and their rights are those that the API server returns, in few requests."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from tests.dashboard.rbac import (
    PODS,
    RAY,
    Object,
    binding,
    bound,
    role,
)
from webhook.dashboard.rights import ALLOWED_SECONDS, NotNowError, UserScope
from webhook.dashboard.sessions import (
    REVIEWED_SECONDS,
    SESSION_SECONDS,
    UNKNOWN_AT_ONCE,
    UNKNOWN_EACH_SECOND,
    OwnAccess,
    TokenAccess,
)
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.errors import ApiError

ALICE = {
    "username": "alice",
    "uid": "1",
    "groups": ["ml", "system:authenticated"],
    "extra": {"scopes": ["a"]},
}
REQUESTS_MAX = 10
"""Requests for the rights of one user, whatever the number of namespaces."""


class Judge(Api):
    """An API server with tokens and RBAC, which counts requests. It is also the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.down = False
        self.asking, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.users: dict[str, dict[str, Any]] = {"good": ALICE}
        self.everywhere: set[tuple[str, str]] = set()
        self.refused: set[str] = set()
        """Users to whom an authorizer before RBAC refuses everything."""
        self.objects: dict[str, list[Object]] = {
            "roles": [],
            "clusterroles": [role("looks")],
            "rolebindings": [],
        }
        self.asked: list[str] = []

    async def get(
        self, path: str, query: Query = (), deadline: float = 0.0, accept: str = ""
    ) -> bytes:
        del query, deadline, accept
        await self._begin(resource := path.rpartition("/")[2])
        return msgspec.json.encode({"items": self.objects[resource]})

    async def create(
        self, path: str, body: Mapping[str, object], deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del deadline, query
        await self._begin(path.rpartition("/")[2])
        spec = body["spec"]
        assert isinstance(spec, dict)
        status: dict[str, object]
        if path.endswith("tokenreviews"):
            user = self.users.get(spec["token"])
            status = {"authenticated": True, "user": user} if user else {"error": "unknown"}
        else:
            status = {"allowed": self._allows(spec)}
        return msgspec.json.encode({"status": status})

    def _allows(self, spec: dict[str, Any]) -> bool:
        """Return what RBAC answers, for roles that list what is needed."""
        wanted, user = spec["resourceAttributes"], spec["user"]
        assert wanted["verb"] == "list"
        if user == "alice":
            assert spec == spec | {key: ALICE[key] for key in ("uid", "groups", "extra")}
        if user in self.refused:
            return False
        if (user, wanted["resource"]) in self.everywhere:
            return True
        bindings = self.objects["rolebindings"]
        return wanted["namespace"] in {each["metadata"]["namespace"] for each in bindings}

    async def _begin(self, resource: str) -> None:
        self.asked.append(resource)
        self.asking.set()
        await self.gate.wait()
        if self.down:
            raise ApiError("refused", "no connection")

    def allow(self, *namespaces: str, user: str = "alice") -> None:
        """Let a user list what is needed in namespaces, or in all."""
        if not namespaces:
            self.everywhere |= {(user, "rayclusters"), (user, "pods")}
        self.objects["rolebindings"] += [binding(each, "looks", user) for each in namespaces]


@pytest.fixture
def judge() -> Judge:
    """An API server that knows alice."""
    return Judge()


def access_of(judge: Judge, *namespaces: str) -> TokenAccess:
    """Return the access in a cluster with some namespaces, two without."""
    found = set(namespaces or ("team", "other"))
    return TokenAccess(judge, lambda: found, lambda: judge.now)


def sight_of(judge: Judge) -> UserScope | None:
    return asyncio.run(access_of(judge).sight("", "good"))


def test_a_user_sees_the_namespaces_in_which_they_may_list_both(judge: Judge) -> None:
    judge.objects["clusterroles"] += [role("pods", PODS)]
    judge.objects["rolebindings"] += [binding("other", "pods", "alice")]
    judge.allow("team", "empty")
    assert sight_of(judge) == UserScope("alice", frozenset({"team"}))
    judge.allow()
    assert sight_of(judge) == UserScope("alice", None)


def test_a_user_without_rights_sees_nothing(judge: Judge) -> None:
    judge.allow("team", user="bob")
    assert sight_of(judge) == UserScope("alice", frozenset())


def test_one_resource_may_be_allowed_everywhere_and_the_other_in_a_namespace(judge: Judge) -> None:
    judge.everywhere.add(("alice", "pods"))
    judge.objects["clusterroles"] += [role("ray", RAY)]
    judge.objects["rolebindings"] += [binding("team", "ray", "alice")]
    assert sight_of(judge) == UserScope("alice", frozenset({"team"}))


@pytest.mark.parametrize("kind", ["Group", "User"])
def test_rights_come_by_the_name_of_the_user_or_of_a_group(judge: Judge, kind: str) -> None:
    name = {"Group": "ml", "User": "alice"}[kind]
    judge.objects["rolebindings"] += [bound("team", "looks", {"kind": kind, "name": name})]
    assert sight_of(judge) == UserScope("alice", frozenset({"team"}))


@pytest.mark.parametrize("place", [{"namespace": "team"}, {}])
def test_a_service_account_is_a_user_of_its_namespace(judge: Judge, place: Object) -> None:
    judge.users["good"] = {"username": "system:serviceaccount:team:bot"}
    judge.objects["rolebindings"] += [
        bound("team", "looks", {"kind": "ServiceAccount", "name": "bot", **place}),
        bound("other", "looks", {"kind": "ServiceAccount", "name": "bot", "namespace": "other"}),
    ]
    found = sight_of(judge)
    assert found == UserScope("system:serviceaccount:team:bot", frozenset({"team"}))


def test_a_role_counts_in_its_own_namespace_only(judge: Judge) -> None:
    judge.objects["roles"] += [role("own", namespace="team")]
    judge.objects["rolebindings"] += [
        binding("team", "own", "alice", kind="Role"),
        binding("other", "own", "alice", kind="Role"),
    ]
    assert sight_of(judge) == UserScope("alice", frozenset({"team"}))


@pytest.mark.parametrize(
    ("rule", "lists"),
    [
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, True),
        ({**RAY, "verbs": ["get", "watch"]}, False),
        ({**RAY, "apiGroups": ["example.com"]}, False),
        ({**RAY, "resources": ["rayclusters/status"]}, False),
        ({**RAY, "resourceNames": ["llama"]}, False),
        ({"nonResourceURLs": ["*"], "verbs": ["*"]}, False),
    ],
)
def test_rules_are_read_as_the_api_server_reads_them(
    judge: Judge, rule: Object, *, lists: bool
) -> None:
    judge.objects["clusterroles"] = [role("some", rule, PODS), {"metadata": {"name": "empty"}}]
    judge.objects["rolebindings"] += [binding("team", "some", "alice")]
    judge.objects["rolebindings"] += [binding("team", "empty", "alice")]
    judge.objects["rolebindings"] += [{**binding("team", "some"), "subjects": None}]
    assert sight_of(judge) == UserScope("alice", frozenset({"team"} if lists else ()))


def test_an_authorizer_that_refuses_what_rbac_grants_counts(judge: Judge) -> None:
    judge.allow("team")
    judge.refused.add("alice")
    assert sight_of(judge) == UserScope("alice", frozenset())


@pytest.mark.parametrize("token", ["", "bad"])
async def test_a_token_that_is_not_known_belongs_to_no_user(judge: Judge, token: str) -> None:
    access = access_of(judge)
    assert await access.sight("", token) is None
    assert await access.enter(token) is None


def test_an_answer_without_a_user_is_a_refusal(judge: Judge) -> None:
    judge.users["good"] = {}
    assert sight_of(judge) is None


async def test_a_session_lasts_until_it_is_left_or_unused(judge: Judge) -> None:
    access = access_of(judge)
    judge.allow()
    session = await access.enter("good")
    assert session
    assert await access.sight(session, "") == UserScope("alice", None)
    judge.now += SESSION_SECONDS - 1
    assert await access.sight(session, "") is not None
    judge.now += SESSION_SECONDS
    assert await access.sight(session, "") is None
    session = await access.enter("good")
    assert session
    access.leave(session)
    assert await access.sight(session, "") is None


async def test_a_right_that_is_taken_away_counts_soon(judge: Judge) -> None:
    access = access_of(judge)
    judge.allow("team")
    assert await access.sight("", "good") == UserScope("alice", frozenset({"team"}))
    judge.objects["rolebindings"].clear()
    judge.now += ALLOWED_SECONDS
    assert await access.sight("", "good") == UserScope("alice", frozenset())
    del judge.users["good"]
    judge.now += REVIEWED_SECONDS
    assert await access.sight("", "good") is None


async def test_rights_in_thousands_of_namespaces_take_a_few_requests_for_all_pages_of_a_user(
    judge: Judge,
) -> None:
    every = [f"team-{number}" for number in range(3000)]
    judge.allow(*every)

    access = access_of(judge, *every)
    found = await asyncio.gather(*(access.sight("", "good") for _ in range(190)))
    assert found == [UserScope("alice", frozenset(every))] * 190
    await access.sight("", "good")
    assert len(judge.asked) <= REQUESTS_MAX


async def test_the_roles_of_a_cluster_are_read_once_for_all_users(judge: Judge) -> None:
    names = [f"user-{number}" for number in range(10)]
    judge.users = {each: {"username": each} for each in names}

    access = access_of(judge)
    await asyncio.gather(*(access.sight("", each) for each in names))
    assert judge.asked.count("rolebindings") == 1


async def test_one_request_that_is_cancelled_does_not_cancel_another(judge: Judge) -> None:
    judge.allow("team")

    access = access_of(judge)
    judge.gate.clear()
    first, second = (asyncio.create_task(access.sight("", "good")) for _ in range(2))
    await judge.asking.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    judge.gate.set()
    assert await second == UserScope("alice", frozenset({"team"}))
    assert judge.asked.count("tokenreviews") == 1


async def test_many_users_do_not_empty_the_cache_of_those_who_are_active(judge: Judge) -> None:
    judge.users |= {f"other-{number}": {"username": str(number)} for number in range(2000)}

    asked: list[list[str]] = []
    access = access_of(judge)
    for number in range(2000):
        await access.sight("", f"other-{number}")
        judge.now += 1 / UNKNOWN_EACH_SECOND
        if number % 10 == 0:
            before = len(judge.asked)
            await access.sight("", "good")
            asked.append(judge.asked[before:])
    kept = [each for each in asked if not each]
    assert len(kept) > len(asked) * 2 // 3, "read again when it is too old, and not each time"


async def test_tokens_that_are_not_known_are_paced_and_those_of_users_are_not(judge: Judge) -> None:
    judge.allow("team")

    access = access_of(judge)
    await access.sight("", "good")
    for number in range(UNKNOWN_AT_ONCE - 1):
        assert await access.sight("", f"guess-{number}") is None
    for number in range(1000):
        with pytest.raises(NotNowError):
            await access.sight("", f"flood-{number}")
    judge.now += REVIEWED_SECONDS
    assert await access.sight("", "good") is not None
    assert judge.asked.count("tokenreviews") == UNKNOWN_AT_ONCE + 1


async def test_tokens_beyond_the_pace_do_not_drop_the_answers_about_others(judge: Judge) -> None:
    access = access_of(judge)
    assert await access.sight("", "bad") is None
    for number in range(2000):
        with suppress(NotNowError):
            await access.sight("", f"flood-{number}")
    assert await access.sight("", "bad") is None
    assert judge.asked.count("tokenreviews") == UNKNOWN_AT_ONCE


def test_an_api_server_that_does_not_answer_lets_no_user_in(judge: Judge) -> None:
    judge.down = True
    with pytest.raises(NotNowError):
        sight_of(judge)
    with pytest.raises(NotNowError):
        asyncio.run(access_of(judge).enter("good"))


def test_roles_that_cannot_be_read_are_a_reason_to_try_again(judge: Judge) -> None:
    judge.allow("team")
    judge.objects["roles"] = [{"metadata": 1}]
    with pytest.raises(NotNowError, match="RoleBindings"):
        sight_of(judge)


async def test_on_a_laptop_the_printed_token_lets_in_and_nothing_else() -> None:
    access = OwnAccess()
    assert await access.enter("guess") is None
    assert await access.sight("", "") is None
    session = await access.enter(access.token)
    assert session
    assert await access.sight(session, "") == UserScope("", None)
    assert await access.sight("", access.token) == UserScope("", None)
    access.leave("guess")
    assert await access.sight(session, "") is not None
    access.leave(session)
    assert await access.sight(session, "") is None
