"""The site over HTTP: authentication, authorization, and headers of every response."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.harness.dashboard_page import Setup, renamed
from tests.harness.html_browser import Tab, parsed
from tests.harness.scenes import Scene, hosts_of, llama
from tests.webhook.cli.test_hostile_texts import HOSTILE, NEVER
from tests.webhook.cli.test_hostile_texts import scene as hostile_scene
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.dashboard.page import BEAT_SECONDS, STREAMS, DashboardSite
from webhook.dashboard.routes import site_application
from webhook.dashboard.session import Session
from webhook.diagnostics.document import document

LOCAL = "http://localhost:8090"
MISSING = "llama-tpu-worker-0-3"


@asynccontextmanager
async def visited(
    page: Setup | DashboardSite, *, signed_in: bool = True
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client, which is signed in by its bearer token."""
    site = site_of(page) if isinstance(page, Setup) else page
    headers = {"authorization": f"Bearer {site.session.token}"} if signed_in else {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(site_application(site)), base_url=LOCAL, headers=headers
    ) as client:
        yield client


def site_of(setup: Setup) -> DashboardSite:
    return DashboardSite(setup.live, Session(), setup.drawer)


def a_setup() -> Setup:
    """Return a setup with two namespaces, one of which lacks a host."""
    return Setup(Scene().without(MISSING).observed(), renamed(Scene(), "other", "qwen"))


async def test_nobody_gets_in_without_a_token() -> None:
    async with visited(a_setup(), signed_in=False) as client:
        page = await client.get("/")
        assert (page.status_code, page.headers["location"]) == (303, "/enter")
        for path in ("/events", "/pod?namespace=team&name=x", "/host", "/diagnosis?id=x"):
            assert (await client.get(path)).status_code == 401, path
        for path in ("/api/v1/status", "/api/v1/pods/team/x", "/openapi.json"):
            answer = await client.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_printed_address_becomes_a_cookie_that_no_script_and_no_other_site_has() -> None:
    site = site_of(a_setup())
    async with visited(site, signed_in=False) as client:
        assert "printed" in (await client.get("/enter")).text
        other = await client.get("/enter?token=guess")
        assert other.status_code == 401
        assert "set-cookie" not in other.headers
        answer = await client.get(f"/enter?token={site.session.token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        page = await client.get("/")
        assert "llama" in page.text
        assert site.session.token not in page.text


@pytest.mark.parametrize(("origin", "status"), [
    ("https://evil.example", 403), ("http://localhost:9999", 403), ("null", 403),
    ("http://localhost:8090", 200),
])  # fmt: skip
async def test_a_page_of_another_site_gets_no_answer(origin: str, status: int) -> None:
    async with visited(a_setup()) as client:
        answer = await client.get("/api/v1/status", headers={"origin": origin})
        assert (answer.status_code, "llama" in answer.text) == (status, status == 200)


async def test_two_dashboards_on_one_machine_have_cookies_of_their_own() -> None:
    async with visited(a_setup(), signed_in=False) as client:
        names = []
        for port in (8090, 8091):
            site = site_of(a_setup())
            client._transport = httpx.ASGITransport(site_application(site))  # noqa: SLF001
            await client.get(f"http://localhost:{port}/enter?token={site.session.token}")
            names.append(f"ray-webhook-{port}")
        assert {*client.cookies} == {*names}


@pytest.mark.parametrize(("host", "status"), [
    *((each, 421) for each in ("evil.example", "evil.example:8090", "127.0.0.1.nip.io", "")),
    *((each, 200) for each in ("localhost", "LOCALHOST:1", "127.0.0.1:9000", "[::1]:8090")),
])  # fmt: skip
async def test_only_names_of_loopback_are_served_at_any_port(host: str, status: int) -> None:
    async with visited(a_setup()) as client:
        answer = await client.get("/api/v1/status", headers={"host": host})
        assert (answer.status_code, "llama" in answer.text) == (status, status == 200)


async def test_every_answer_has_a_strict_policy_and_is_kept_by_nobody() -> None:
    async with visited(a_setup()) as client:
        for path in ("/", "/enter", "/nowhere", "/api/v1/status", "/openapi.json"):
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store", path


async def test_the_page_asks_only_for_what_is_served_here_and_has_nothing_inline() -> None:
    async with visited(a_setup()) as client:
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


async def test_an_object_that_does_not_exist_is_404_and_named_in_an_open_page() -> None:
    async with visited(a_setup()) as client:
        for path in (
            "/pod?namespace=team&name=xyzzy",
            "/host?namespace=team&cluster=xyzzy&group=tpu&replica=0&host=3",
            "/api/v1/pods/team/xyzzy",
        ):
            assert (await client.get(path)).status_code == 404, path
        path = "/pod?namespace=team&name=xyzzy"
        part = await client.get(path, headers={"hx-request": "true"})
        assert part.status_code == 200
        assert "It does not exist any more." in part.text


async def test_the_json_of_a_namespace_has_nothing_of_another() -> None:
    async with visited(a_setup()) as client:
        found = (await client.get("/api/v1/status?namespace=other")).json()
        assert [each["name"] for each in found["clusters"]] == ["qwen"]


async def test_the_filter_shows_one_namespace_and_keeps_the_others_to_choose() -> None:
    async with visited(a_setup()) as client:
        root = parsed((await client.get("/?namespace=other&sort=name")).text)
        (clusters,) = root.by_id("clusters")
        assert [each.text for each in clusters.every("h2")] == ["other/ qwen"]
        (select,) = root.by_id("namespace")
        chosen = {each.text: "selected" in each.attributes for each in select.every("option")}
        assert chosen == {"all namespaces": False, "other": True, "team": False}


async def test_the_headline_and_the_problems_are_filters_which_the_address_keeps() -> None:
    async with visited(a_setup()) as client:

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


async def test_the_title_counts_the_problems_of_the_page() -> None:
    async with visited(a_setup()) as client:
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
    async with visited(Setup(samples()["second-webhook"].scene().observed())) as client:
        page = parsed((await client.get("/")).text)
        (summary,) = page.by_id("summary")
        assert summary.text == "1 RayCluster; 1 problem of the installation 1 ready"
        assert len(page.by_id("beside")[0].every("li", "problem")) == 1
        part = parsed((await client.get("/?namespace=team")).text)
        assert part.by_id("beside")[0].every("li", "problem") == []


async def test_an_owner_without_a_raycluster_is_shown_with_its_namespace() -> None:
    async with visited(Setup(samples()["cluster-not-created"].scene().observed())) as client:
        for address in ("/", "/?namespace=team"):
            page = parsed((await client.get(address)).text)
            (problem,) = page.by_id("beside")[0].every("li", "problem")
            assert "team: RayJob nightly has no RayCluster" in problem.text
        part = parsed((await client.get("/?namespace=other")).text)
        assert part.by_id("beside")[0].every("li", "problem") == []


async def test_pages_and_json_are_compressed_and_the_stream_of_changes_is_not() -> None:
    setup = a_setup()
    async with visited(setup) as client:
        for path in ("/", "/api/v1/status"):
            answer = await client.get(path)
            assert answer.headers["content-encoding"] == "gzip"
            assert "accept-encoding" in answer.headers["vary"].lower()
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert "llama" in plain.text
        setup.live.close()
        assert "content-encoding" not in (await client.get("/events")).headers


async def test_a_missing_host_is_one_click_from_what_its_next_pod_is_given() -> None:
    async with visited(a_setup()) as client:
        root = parsed((await client.get("/")).text)
        (cell,) = root.every("a", "missing")
        part = (await client.get(cell.attributes["href"], headers={"hx-request": "true"})).text
        assert "<html" not in part
        assert "TPU_WORKER_ID=3" in parsed(part).text
        assert "index of the host in its slice" in part
        assert "host-missing" in part
        assert "<html" in (await client.get(cell.attributes["href"])).text
        for wrong in ("replica=x", "replica=0&host=99999999999", "replica=0"):
            path = f"/host?namespace=team&cluster=llama&group=tpu&{wrong}"
            assert (await client.get(path)).status_code == 404
    async with visited(Setup(Scene().without(*hosts_of(0)[:3]).observed())) as client:
        path = "/host?namespace=team&cluster=llama&group=tpu&replica=0&host=2"
        assert "TPU_WORKER_ID=2" in parsed((await client.get(path)).text).text


async def test_a_pod_tells_what_it_was_given_and_whether_it_has_it() -> None:
    async with visited(Setup(samples()["worker-id-differs"].scene().observed())) as client:
        path = f"/pod?namespace=team&name={MISSING}"
        shown = parsed((await client.get(path, headers={"hx-request": "true"})).text)
        assert "host 3 of replica 0" in shown.text
        assert f"kubectl logs -n team {MISSING}" in shown.text
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
    scene = Scene(cluster)
    for number, reason in enumerate(reasons := ["Killing", "FailedMount", "Unhealthy"] * 4):
        scene.event(reason, "llama-head", number)

    async with visited(Setup(scene.observed())) as client:
        path = "/pod?namespace=team&name=llama-head"
        shown = parsed((await client.get(path, headers={"hx-request": "true"})).text)
        assert [each for each in shown.every("li", "has-it") if "schedulingGroup" in each.text]
        assert "no shard variables" in shown.text
        (events,) = shown.every("ul", "events")
        assert [each.text for each in events.every("b")] == reasons[:10]
        account = (await client.get("/api/v1/pods/team/llama-head")).json()["account"]
        assert (account["group"], account["replica"], account["host"]) == (names.HEAD_GROUP, 0, 0)
        assert [each["what"] for each in account["given"]] == ["schedulingGroup"]
        assert [each["level"] for each in account["remarks"]] == ["warning"]


async def test_only_a_command_that_reads_is_beside_a_button_that_copies() -> None:
    async with visited(Setup(samples()["identity-duplicate"].scene().observed())) as client:
        root = parsed((await client.get("/")).text)
        read, change = root.every("div", "command")
        assert [each.text.startswith("kubectl get ") for each in read.every("code")] == [True]
        assert len(read.every("button")) == 1
        assert [each.text.startswith("kubectl delete ") for each in change.every("code")] == [True]
        assert "deletes 2 pods, and ends what runs in them" in change.text
        assert change.every("button") == []


async def test_a_diagnosis_is_explained() -> None:
    async with visited(a_setup()) as client:
        shown = await client.get("/diagnosis?id=host-missing")
        assert "A replica with missing hosts." in shown.text
        assert (await client.get("/diagnosis?id=xyzzy")).status_code == 404


async def test_the_json_is_that_of_the_terminal_and_is_described() -> None:
    setup = a_setup()
    async with visited(setup) as client:
        found = (await client.get("/api/v1/status")).json()
        assert found == document(setup.live.examiner.cluster_report(setup.now, setup.live.unread))
        described = (await client.get("/openapi.json")).json()
        assert described["paths"].keys() == {"/api/v1/status", "/api/v1/pods/{namespace}/{name}"}
        assert all("401" in path["get"]["responses"] for path in described["paths"].values())
        schemas = described["components"]["schemas"]
        for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(described)):
            assert reference.removeprefix("#/components/schemas/") in schemas
        assert found.keys() <= schemas["StatusReport"]["properties"].keys()
        cluster = schemas["ClusterStatus"]["properties"].keys()
        assert found["clusters"][1].keys() <= cluster


async def test_the_number_of_streams_is_bounded() -> None:
    site = site_of(a_setup())

    async def opened() -> AsyncGenerator[bytes]:
        stream = site.events({}, "")
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        return stream

    streams = [await opened() for _ in range(STREAMS)]
    with pytest.raises(StopAsyncIteration):
        await opened()
    await streams[0].aclose()
    streams.append(await opened())
    async with visited(site) as client:
        assert (await client.get("/events")).status_code == 429
    for each in streams:
        await each.aclose()


QUIET = b": still here\n\n"


class Feed:
    """A stream of changes, read message by message, and the page that takes them in."""

    def __init__(self, site: DashboardSite, html: str) -> None:
        self.tab = Tab(html)
        (feed,) = self.tab.root.by_id("feed")
        self.since = httpx.URL(feed.attributes["hx-sse:connect"]).params["since"]
        self.stream = site.events({}, self.since)

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
async def following(setup: Setup) -> AsyncIterator[Feed]:
    """Yield a feed, which is told of everything at once: it waits for no beat."""
    site = site_of(setup)
    feed = Feed(site, site.listing.page({}))
    async with asyncio.timeout(BEAT_SECONDS / 2):
        assert [await anext(feed.stream) for _ in range(2)] == [b"retry: 2000\n\n", QUIET]
        yield feed


async def test_a_host_that_comes_back_is_seen_without_a_reload() -> None:
    scene = Scene()
    setup = Setup(Scene().without(MISSING).observed())

    async with following(setup) as feed:
        assert len(feed.tab.root.every("a", "missing")) == 1
        setup.put_pods([scene.pods[MISSING]])
        setup.examine_changed()
        await feed.take()
        assert feed.tab.root.every("a", "missing") == []
        assert feed.tab.root.by_id("summary")[0].text == "1 RayCluster 1 ready"
        assert feed.tab.root.every("li", "problem") == []


async def test_a_page_that_connects_again_receives_everything_only_if_it_has_changed() -> None:
    setup = a_setup()

    site = site_of(setup)
    feed = Feed(site, site.listing.page({}))
    await anext(feed.stream)
    assert await anext(feed.stream) == QUIET
    for version in ("9" * 4301, "\N{ARABIC-INDIC DIGIT ONE}", ""):
        feed.stream = site.events({}, version)
        assert any('id="clusters"' in message for message in await feed.take())


async def test_words_of_a_tenant_cannot_end_a_message_of_the_stream() -> None:
    setup = Setup(Scene().observed())
    scene = samples()["container-not-running"].scene()
    (waiting,) = scene.pods[MISSING]["status"]["containerStatuses"]
    waiting["name"] = "ray\r\n\r\nevent: gone\rid: 7\n\ndata: <b>"

    async with following(setup) as feed:
        setup.put_pods([scene.pods[MISSING]])
        setup.examine_changed()
        taken = await feed.take()
        assert "event: gone" in "".join(taken)
        assert feed.tab.root.every("b") == []
        assert len(feed.tab.root.every("li", "problem")) == 1


async def test_every_frame_has_lines_that_the_stream_knows() -> None:
    setup = Setup(Scene().observed())

    async for frame in site_of(setup).events({}, "nonsense"):
        text = frame.decode()
        assert text.endswith("\n\n")
        for line in text[:-2].split("\n"):
            assert line.startswith(("data: ", "id: ", "retry: ", ": "))
        if text.startswith("id: "):
            setup.live.close()


async def test_hostile_texts_of_objects_reach_the_page_escaped() -> None:
    found = hostile_scene()
    found.cluster["spec"]["workerGroupSpecs"].append({"groupName": HOSTILE, "replicas": 1})
    pod, cluster = max(found.pods), "/?namespace=team&cluster=llama"
    found.pods[pod]["metadata"]["labels"][names.LABEL_REPLICA_INDEX] = HOSTILE
    data = ("/api/v1/status", f"/api/v1/pods/team/{pod}")
    async with visited(Setup(found.observed())) as client:
        paths = ("/", cluster, f"/pod?namespace=team&name={pod}", *data)
        texts = {path: (await client.get(path)).text for path in paths}
    for path, text in texts.items():
        assert "stop-commands" in text, path
        assert not [character for character in NEVER if character in text], path
    groups = json.loads(texts[data[0]])["clusters"][0]["groups"]
    assert [group["name"] for group in groups] == ["tpu", HOSTILE]


def test_only_the_printed_token_and_its_cookie_are_accepted() -> None:
    session = Session()
    for other in ("", "guess", Session().token):
        assert session.enter(other) is None
        assert not session.is_of(other, other)
    cookie = session.enter(session.token)
    assert cookie
    assert cookie != session.token
    assert session.is_of(cookie, "")
    assert session.is_of("", session.token)
    assert not session.is_of(session.token, cookie)
