"""The site over HTTP: authentication, authorization, and headers of every response."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.dashboard.browser import Tab, parsed
from tests.dashboard.stage import Stage, renamed
from tests.diagnostics.samples import samples
from tests.diagnostics.scenes import Scene, llama
from webhook.api import names
from webhook.dashboard.page import BEAT_SECONDS, STREAMS, DashboardSite
from webhook.dashboard.rights import NotNowError, UserScope
from webhook.dashboard.routes import LOOPBACK, site_application
from webhook.dashboard.sessions import OwnAccess, TokenAccess
from webhook.diagnostics.document import document

MISSING = "llama-tpu-worker-0-3"


class Tenants(TokenAccess):
    """Access by tokens that are names of namespaces; `all` sees everything, `down` no one."""

    def __init__(self) -> None:
        """Use no API server."""

    async def enter(self, token: str) -> str | None:
        """Let in anyone who has a token."""
        return token if await self.sight(token, "") else None

    def leave(self, session: str) -> None:
        """Do nothing."""

    async def sight(self, session: str, bearer: str) -> UserScope | None:
        """Return who it is."""
        who = bearer or session
        if who == "down":
            raise NotNowError("the API server cannot be asked who you are")
        if who == "all":
            return UserScope("root", None)
        if who == "busy":
            return UserScope("alice", None)
        return UserScope(who, frozenset({who})) if who in {"team", "other"} else None


@asynccontextmanager
async def visited(stage: Stage, who: str = "all") -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that has a bearer token."""
    app = site_application(DashboardSite(stage.live, Tenants(), stage.drawer), LOOPBACK, "session")
    headers = {"authorization": f"Bearer {who}"} if who else {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost:8090", headers=headers
    ) as client:
        yield client


def a_stage() -> Stage:
    """Return a stage with two namespaces, one of which lacks a host."""
    return Stage(Scene().without(MISSING).observed(), renamed(Scene(), "other", "qwen"))


async def test_nobody_gets_in_without_a_token() -> None:
    async with visited(a_stage(), who="") as client:
        page = await client.get("/")
        assert (page.status_code, page.headers["location"]) == (303, "/enter")
        for path in ("/events", "/pod?namespace=team&name=x", "/host", "/diagnosis?id=x"):
            assert (await client.get(path)).status_code == 401, path
        for path in ("/api/v1/status", "/api/v1/pods/team/x", "/openapi.json"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_in_a_form_becomes_a_cookie_that_no_script_and_no_other_site_has() -> None:
    async with visited(a_stage(), who="") as client:
        wrong = await client.post("/enter", data={"token": "guess"})
        assert wrong.status_code == 401
        assert "not accepted" in wrong.text
        right = await client.post("/enter", data={"token": " team "})
        assert (right.status_code, right.headers["location"]) == (303, "/")
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "llama" in (await client.get("/")).text
        await client.post("/leave")
        assert (await client.get("/")).status_code == 303
        large = await client.post("/enter", content=b"token=" + b"x" * 100_000)
        assert large.status_code == 413


async def test_the_printed_address_lets_in_and_does_not_stay_in_the_address_bar() -> None:
    stage, access = a_stage(), OwnAccess()
    app = site_application(DashboardSite(stage.live, access, stage.drawer), LOOPBACK, "session")

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8090"
    ) as client:
        assert "printed" in (await client.get("/enter")).text
        answer = await client.get(f"/enter?token={access.token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        page = await client.get("/")
        assert page.status_code == 200
        assert access.token not in page.text


async def test_the_token_of_a_user_is_not_taken_from_an_address() -> None:
    async with visited(a_stage(), who="") as client:
        answer = await client.get("/enter?token=team")
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"origin": "https://evil.example"}, False),
        ({"origin": "http://localhost:9999"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://localhost:8090", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://localhost:8090", "sec-fetch-site": "same-site"}, False),
        ({"origin": "http://localhost:8090"}, True),
        ({"origin": "https://dashboard.example", "sec-fetch-site": "same-origin"}, True),
        ({}, True),
    ],
)
async def test_a_form_of_another_site_is_not_taken(headers: dict[str, str], *, taken: bool) -> None:
    async with visited(a_stage(), who="") as client:
        answer = await client.post("/enter", data={"token": "team"}, headers=headers)
        assert answer.status_code == (303 if taken else 403)
        assert ("set-cookie" in answer.headers) == taken
        assert (await client.post("/leave", headers=headers)).status_code == (303 if taken else 403)


async def test_two_dashboards_on_one_machine_do_not_sign_each_other_out() -> None:
    async with visited(a_stage(), who="") as client:
        await client.post("/enter", data={"token": "team"})
        await client.post("http://localhost:8091/enter", data={"token": "other"})
        assert "llama" in (await client.get("/")).text
        assert "qwen" in (await client.get("http://localhost:8091/")).text
        await client.post("http://localhost:8091/leave")
        assert "llama" in (await client.get("/")).text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((each, 421) for each in ("evil.example", "evil.example:8090", "127.0.0.1.nip.io", "")),
        *((each, 200) for each in ("localhost", "LOCALHOST:1", "127.0.0.1:9000", "[::1]:8090")),
    ],
)
async def test_only_names_of_loopback_are_served_at_any_port(host: str, status: int) -> None:
    async with visited(a_stage()) as client:
        answer = await client.get("/api/v1/status", headers={"host": host})
        assert (answer.status_code, "llama" in answer.text) == (status, status == 200)


async def test_every_answer_has_a_strict_policy_and_is_kept_by_nobody() -> None:
    async with visited(a_stage()) as client:
        for path in ("/", "/enter", "/nowhere", "/api/v1/status", "/openapi.json"):
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store", path


async def test_the_page_asks_only_for_what_is_served_here_and_has_nothing_inline() -> None:
    async with visited(a_stage()) as client:
        root = parsed((await client.get("/")).text)
        wanted = [each.attributes["src"] for each in root.every("script")]
        assert all(not each.text for each in root.every("script"))
        wanted += [each.attributes["href"] for each in root.every("link")]
        assert len(wanted) >= 4
        for path in wanted:
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert "immutable" in answer.headers["cache-control"]
        for element in root:
            assert not [name for name in element.attributes if name.startswith(("on", "style"))]
        assert (await client.get("/static/../site.py")).status_code == 404
        assert (await client.get("/static/htmx.LICENSE")).status_code == 404


async def test_a_tenant_sees_nothing_of_another() -> None:
    async with visited(a_stage(), who="other") as client:
        for path in ("/", "/?namespace=team", "/api/v1/status", "/api/v1/status?namespace=team"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "llama" not in answer.text, path
        for path in (
            "/pod?namespace=team&name=llama-head",
            "/host?namespace=team&cluster=llama&group=tpu&replica=0&host=3",
            "/api/v1/pods/team/llama-head",
        ):
            assert (await client.get(path)).status_code == 404, path
        assert "qwen" in (await client.get("/")).text
        assert (await client.get("/pod?namespace=other&name=qwen-head")).status_code == 200


async def test_an_open_page_is_told_of_what_is_gone_as_of_what_another_has() -> None:
    async with visited(a_stage(), who="other") as client:
        gone = []
        for name in ("llama-head", "xyzzy"):
            path = f"/pod?namespace=team&name={name}"
            answer = await client.get(path, headers={"hx-request": "true"})
            assert answer.status_code == 200
            gone.append(answer.text.replace(name, ""))
        assert "It does not exist, or you may not see it." in gone[0]
        assert gone[0] == gone[1]
        path = "/host?namespace=team&cluster=llama&group=tpu&replica=0&host=3"
        assert "TPU" not in (await client.get(path, headers={"hx-request": "true"})).text


async def test_the_filter_shows_one_namespace_and_keeps_the_others_to_choose() -> None:
    async with visited(a_stage()) as client:
        root = parsed((await client.get("/?namespace=other&sort=name")).text)
        (clusters,) = root.by_id("clusters")
        assert [each.text for each in clusters.every("h2")] == ["other/ qwen"]
        (select,) = root.by_id("namespace")
        chosen = {each.text: "selected" in each.attributes for each in select.every("option")}
        assert chosen == {"all namespaces": False, "other": True, "team": False}


async def test_the_headline_and_the_problems_are_filters_which_the_address_keeps() -> None:
    async with visited(a_stage()) as client:

        async def shown(path: str) -> tuple[list[str], dict[str, str]]:
            root = parsed((await client.get(path)).text)
            links = root.every("a", "filter") + root.every("a", "chip")
            return (
                [each.text for each in root.every("h2") if "/" in each.text],
                {each.text: each.attributes["href"] for each in links},
            )

        every, links = await shown("/?sort=name")
        assert every == ["other/ qwen", "team/ llama"]
        assert links == {
            "1 degraded": "/?state=degraded&sort=name",
            "1 ready": "/?state=ready&sort=name",
            "host-missing 1": "/?problem=host-missing&sort=name",
        }
        assert (await shown(links["1 ready"]))[0] == ["other/ qwen"]
        for path in (links["1 degraded"], links["host-missing 1"]):
            some, back = await shown(path)
            assert some == ["team/ llama"]
            assert "/?sort=name" in back.values(), "a second click shows all again"
        assert (await shown("/?q=QWEN&page=x&sort=y&state=z"))[0] == []
        assert (await shown("/?q=QWEN&page=77&sort=y"))[0] == ["other/ qwen"]


async def test_the_title_counts_the_problems_of_what_a_user_sees() -> None:
    async with visited(a_stage()) as client:
        for address, title, problems in (
            ("/", "(1) ray-webhook", "1"),
            ("/?namespace=team", "(1) ray-webhook", "1"),
            ("/?namespace=other", "ray-webhook", "0"),
        ):
            page = parsed((await client.get(address)).text)
            assert [each.text for each in page.every("title")] == [title]
            (summary,) = page.by_id("summary")
            assert summary.attributes["data-problems"] == problems


async def test_a_problem_of_the_installation_counts_where_everything_is_seen() -> None:
    async with visited(Stage(samples()["second-webhook"].scene().observed())) as client:
        page = parsed((await client.get("/")).text)
        (summary,) = page.by_id("summary")
        assert summary.text == "1 RayCluster; 1 problem of the installation 1 ready"
        assert len(page.by_id("beside")[0].every("li", "problem")) == 1
        part = parsed((await client.get("/?namespace=team")).text)
        assert part.by_id("beside")[0].every("li", "problem") == []


async def test_pages_and_json_are_compressed_and_the_stream_of_changes_is_not() -> None:
    stage = a_stage()
    async with visited(stage) as client:
        for path in ("/", "/api/v1/status"):
            answer = await client.get(path)
            assert answer.headers["content-encoding"] == "gzip"
            assert "accept-encoding" in answer.headers["vary"].lower()
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert "llama" in plain.text
        stage.live.close()
        assert "content-encoding" not in (await client.get("/events")).headers


async def test_a_missing_host_is_one_click_from_what_its_next_pod_is_given() -> None:
    async with visited(a_stage()) as client:
        root = parsed((await client.get("/")).text)
        (cell,) = root.every("a", "missing")
        part = (await client.get(cell.attributes["href"], headers={"hx-request": "true"})).text
        assert "<html" not in part
        assert "TPU_WORKER_ID=3" in parsed(part).text
        assert "this host&#39;s place in its slice" in part
        assert "host-missing" in part
        assert "<html" in (await client.get(cell.attributes["href"])).text
        for wrong in ("replica=x", "replica=0&host=99999999999", "replica=0"):
            path = f"/host?namespace=team&cluster=llama&group=tpu&{wrong}"
            assert (await client.get(path)).status_code == 404


async def test_a_pod_tells_what_it_was_given_and_whether_it_has_it() -> None:
    async with visited(Stage(samples()["worker-id-differs"].scene().observed())) as client:
        path = f"/pod?namespace=team&name={MISSING}"
        shown = parsed((await client.get(path, headers={"hx-request": "true"})).text)
        assert "host 3 of replica 0" in shown.text
        (other,) = [each for each in shown.every("li", "other") if "TPU_WORKER_ID" in each.text]
        assert "the pod has 2" in other.text
        assert len(shown.every("li", "has-it")) > 3
        found = (await client.get(f"/api/v1/pods/team/{MISSING}")).json()
        held = {each["what"]: each for each in found["account"]["given"]}
        assert held["TPU_WORKER_ID"]["actual"] == "2"
        assert [each["id"] for each in found["problems"]] == ["worker-id-differs"]


async def test_a_head_tells_what_it_was_given_and_what_admission_warns_of() -> None:
    cluster = llama().annotated(names.ANNOTATION_SHARD_GROUP, "search")
    cluster.annotated(names.ANNOTATION_SCHEDULING_GROUP, "cluster")

    async with visited(Stage(Scene(cluster).observed())) as client:
        path = "/pod?namespace=team&name=llama-head"
        shown = parsed((await client.get(path, headers={"hx-request": "true"})).text)
        assert [each for each in shown.every("li", "has-it") if "schedulingGroup" in each.text]
        assert "no shard variables" in shown.text
        account = (await client.get("/api/v1/pods/team/llama-head")).json()["account"]
        assert (account["group"], account["replica"], account["host"]) == (names.HEAD_GROUP, 0, 0)
        assert [each["what"] for each in account["given"]] == ["schedulingGroup"]
        assert [each["level"] for each in account["remarks"]] == ["warning"]


async def test_only_a_command_that_reads_is_beside_a_button_that_copies() -> None:
    async with visited(Stage(samples()["identity-held-twice"].scene().observed())) as client:
        root = parsed((await client.get("/")).text)
        read, change = root.every("div", "command")
        assert [each.text.startswith("kubectl get ") for each in read.every("code")] == [True]
        assert len(read.every("button")) == 1
        assert [each.text.startswith("kubectl delete ") for each in change.every("code")] == [True]
        assert "deletes 2 pods, and ends what runs in them" in change.text
        assert change.every("button") == []


async def test_a_diagnosis_is_explained() -> None:
    async with visited(a_stage()) as client:
        shown = await client.get("/diagnosis?id=host-missing")
        assert "A replica with missing hosts." in shown.text
        assert (await client.get("/diagnosis?id=xyzzy")).status_code == 404


async def test_the_json_is_that_of_the_terminal_and_is_described() -> None:
    stage = a_stage()
    async with visited(stage) as client:
        found = (await client.get("/api/v1/status")).json()
        assert found["waits"] is True
        assert found == document(
            stage.live.examiner.cluster_report(stage.now, None, stage.live.unread)
        )
        assert [each["name"] for each in found["clusters"]] == ["qwen", "llama"]
        hosts = found["clusters"][1]["groups"][0]["replicas"][0]["hosts"]
        assert [each["state"] for each in hosts] == ["ready"] * 3 + ["missing"]
        described = (await client.get("/openapi.json")).json()
        assert described["paths"].keys() == {"/api/v1/status", "/api/v1/pods/{namespace}/{name}"}
        schemas = described["components"]["schemas"]
        for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(described)):
            assert reference.removeprefix("#/components/schemas/") in schemas
        assert found.keys() <= schemas["Status"]["properties"].keys()
        cluster = schemas["ClusterStatus"]["properties"].keys()
        assert found["clusters"][1].keys() <= cluster


async def test_an_api_server_that_cannot_be_asked_is_503() -> None:
    async with visited(a_stage(), who="down") as client:
        answer = await client.get("/api/v1/status")
        assert answer.status_code == 503
        assert "retry-after" in answer.headers


async def test_a_user_has_a_bounded_number_of_streams() -> None:
    stage = a_stage()
    site = DashboardSite(stage.live, Tenants(), stage.drawer)

    async def opened(sight: UserScope) -> AsyncGenerator[bytes]:
        async def read_scope() -> UserScope:
            return sight

        stream = site.events(read_scope, {}, "")
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        return stream

    streams = [await opened(UserScope("alice", None)) for _ in range(STREAMS)]
    assert not site.streams(UserScope("alice", None))
    with pytest.raises(StopAsyncIteration):
        await opened(UserScope("alice", None))
    streams.append(await opened(UserScope("bob", None)))
    await streams[0].aclose()
    streams.append(await opened(UserScope("alice", None)))
    app = site_application(site, LOOPBACK, "session")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/events", headers={"authorization": "Bearer busy"})
    assert answer.status_code == 429
    for each in streams:
        await each.aclose()


async def test_a_stream_whose_rights_are_not_answered_ends_with_the_process() -> None:
    stage = a_stage()
    site = DashboardSite(stage.live, Tenants(), stage.drawer)

    asked = asyncio.Event()

    async def read_scope() -> UserScope | None:
        if asked.is_set():
            await asyncio.Event().wait()
        asked.set()
        return UserScope("", None)

    async def read() -> None:
        async for _ in site.events(read_scope, {}, ""):
            pass

    reading = asyncio.create_task(read())
    await asked.wait()
    stage.live.close()
    await reading


QUIET = b": still here\n\n"


class Feed:
    """A stream of changes, read message by message, and the page that takes them in."""

    def __init__(self, site: DashboardSite, sight: UserScope, html: str) -> None:
        self.tab = Tab(html)
        (feed,) = self.tab.root.by_id("feed")
        self.since = httpx.URL(feed.attributes["hx-sse:connect"]).params["since"]
        self.sight: UserScope | None = sight
        self.stream = site.events(self.read_scope, {}, self.since)

    async def read_scope(self) -> UserScope | None:
        """Return who looks."""
        return self.sight

    async def take(self) -> list[str]:
        """Take in everything up to the next id, and return it."""
        taken = []
        async for frame in self.stream:
            lines = frame.decode().splitlines()
            data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
            if data:
                taken.append(data)
                self.tab.take(data)
            if frame.startswith(b"id: "):
                return taken
        return taken


@asynccontextmanager
async def following(stage: Stage, sight: UserScope) -> AsyncIterator[Feed]:
    """Yield a feed, which is told of everything at once: it waits for no beat."""
    site = DashboardSite(stage.live, Tenants(), stage.drawer)
    feed = Feed(site, sight, site.listing.page(sight, {}))
    async with asyncio.timeout(BEAT_SECONDS / 2):
        assert [await anext(feed.stream) for _ in range(2)] == [b"retry: 2000\n\n", QUIET]
        yield feed


async def test_a_host_that_comes_back_is_seen_without_a_reload() -> None:
    scene = Scene()
    stage = Stage(Scene().without(MISSING).observed())

    async with following(stage, UserScope("", None)) as feed:
        assert len(feed.tab.root.every("a", "missing")) == 1
        stage.put_pods([scene.pods[MISSING]])
        stage.examine_changed()
        await feed.take()
        assert feed.tab.root.every("a", "missing") == []
        assert feed.tab.root.by_id("summary")[0].text == "1 RayCluster 1 ready"
        assert feed.tab.root.every("li", "problem") == []


async def test_a_page_that_connects_again_receives_everything_only_if_it_has_changed() -> None:
    stage = a_stage()

    site, sight = DashboardSite(stage.live, Tenants(), stage.drawer), UserScope("", None)
    feed = Feed(site, sight, site.listing.page(sight, {}))
    await anext(feed.stream)
    assert await anext(feed.stream) == QUIET
    for version in ("9" * 4301, "\N{ARABIC-INDIC DIGIT ONE}", ""):
        feed.stream = site.events(feed.read_scope, {}, version)
        assert any('id="clusters"' in message for message in await feed.take())


async def test_rights_that_change_change_what_is_on_the_page() -> None:
    stage = a_stage()

    async with following(stage, UserScope("", frozenset({"team"}))) as feed:
        assert "qwen" not in feed.tab.root.text
        feed.sight = UserScope("", None)
        stage.live.notify()
        await feed.take()
        assert [each.text for each in feed.tab.root.every("h2") if "/" in each.text] == [
            "team/ llama",
            "other/ qwen",
        ]
        feed.sight = UserScope("", frozenset())
        stage.live.notify()
        await feed.take()
        assert feed.tab.root.every("section") == []
        feed.sight = None
        stage.live.notify()
        assert await feed.take() == []


async def test_words_of_a_tenant_cannot_end_a_message_of_the_stream() -> None:
    stage = Stage(Scene().observed())
    scene = samples()["container-waits"].scene()
    (waiting,) = scene.pods[MISSING]["status"]["containerStatuses"]
    waiting["name"] = "ray\r\n\r\nevent: gone\rid: 7\n\ndata: <b>"

    async with following(stage, UserScope("", None)) as feed:
        stage.put_pods([scene.pods[MISSING]])
        stage.examine_changed()
        taken = await feed.take()
        assert "event: gone" in "".join(taken)
        assert feed.tab.root.every("b") == []
        assert len(feed.tab.root.every("li", "problem")) == 1


async def test_every_frame_has_lines_that_the_stream_knows() -> None:
    stage = Stage(Scene().observed())
    site = DashboardSite(stage.live, Tenants(), stage.drawer)

    async def read_scope() -> UserScope:
        return UserScope("", None)

    async for frame in site.events(read_scope, {}, "nonsense"):
        text = frame.decode()
        assert text.endswith("\n\n")
        for line in text[:-2].split("\n"):
            assert line.startswith(("data: ", "id: ", "retry: ", ": "))
        if text.startswith("id: "):
            stage.live.close()
