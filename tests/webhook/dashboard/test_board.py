"""The list of RayClusters: results of queries, and updates of an open page."""

import re

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from tests.harness.dashboard_page import Setup, renamed
from tests.harness.html_browser import Tab
from tests.harness.scenes import Object, Scene, llama
from webhook.dashboard.listing import Listing, Shown
from webhook.dashboard.query import Query
from webhook.dashboard.rendered import LISTED
from webhook.dashboard.view import PAGE_HOSTS, Section
from webhook.diagnostics.examiner import examine

HOST = "llama-tpu-worker-0-3"
SCENE = Scene(llama(replicas=15))
PODS: dict[int, list[Object]] = {
    replica: [SCENE.pods[f"llama-tpu-worker-{replica}-{host}"] for host in range(4)]
    for replica in range(15)
}


class Client:
    """A browser, and what it has received."""

    def __init__(self, setup: Setup, query: Query | None = None) -> None:
        self.setup = setup
        self.query = query or Query()
        self.received: Shown | None = self.shown()
        self.tab = Tab(f'<div id="clusters">{self.shown().html}</div>')

    def shown(self) -> Shown:
        return Shown(self.setup.board.find(self.query).shown, {})

    def messages(self) -> list[str]:
        return self.shown().since(self.received)

    def catch_up(self) -> None:
        """Receive all messages, and fail unless the page is as a new one would be."""
        for message in self.messages():
            self.tab.take(message)
        self.received = self.shown()
        fresh = Client(self.setup, self.query)
        assert self.tab.root.shown() == fresh.tab.root.shown()

    @property
    def names(self) -> list[str]:
        """The RayClusters on the page, in order."""
        return [each.text.replace("/ ", "/") for each in self.tab.root.every("h2")]


class Changes(RuleBasedStateMachine):
    """Lets replicas, hosts and RayClusters come and go, and browsers follow at their own pace."""

    def __init__(self) -> None:
        super().__init__()
        self.setup = Setup(SCENE.observed(), renamed(Scene(), "other", "qwen"))
        self.clients = [
            Client(self.setup),
            Client(self.setup, Query(namespace="other")),
            Client(self.setup, Query(namespace="team", cluster="llama")),
            Client(self.setup, Query(q="tpu", state="degraded", sort="name")),
        ]

    @rule(replica=st.integers(0, 14), hosts=st.sets(st.integers(0, 3), min_size=1))
    def drop(self, replica: int, hosts: set[int]) -> None:
        self.setup.drop_pods(PODS[replica][host] for host in hosts)

    @rule(replica=st.integers(0, 14), hosts=st.sets(st.integers(0, 3), min_size=1))
    def restore(self, replica: int, hosts: set[int]) -> None:
        self.setup.put_pods(PODS[replica][host] for host in hosts)

    @rule(replica=st.integers(0, 14))
    def swap(self, replica: int) -> None:
        """Let a host be in the identity of another."""
        labels = {**PODS[replica][0]["metadata"]["labels"], "ray.io/replica-host-index": "1"}
        meta = {**PODS[replica][0]["metadata"], "labels": labels}
        self.setup.put_pods([{**PODS[replica][0], "metadata": meta}])

    @rule(wanted=st.integers(0, 18))
    def scale(self, wanted: int) -> None:
        (group,) = SCENE.cluster["spec"]["workerGroupSpecs"]
        spec = {**SCENE.cluster["spec"], "workerGroupSpecs": [{**group, "replicas": wanted}]}
        self.setup.put_cluster({**SCENE.cluster, "spec": spec})

    @rule(groups=st.integers(1, 3))
    def regroup(self, groups: int) -> None:
        (group,) = SCENE.cluster["spec"]["workerGroupSpecs"]
        every = [{**group, "groupName": f"more{number}"} for number in range(groups - 1)]
        spec = {**SCENE.cluster["spec"], "workerGroupSpecs": [*every, group]}
        self.setup.put_cluster({**SCENE.cluster, "spec": spec})

    @rule(name=st.sampled_from(["alpha", "qwen", "zeta"]), there=st.booleans())
    def another(self, name: str, *, there: bool) -> None:
        """Let another RayCluster come or go."""
        namespace = "third" if name == "zeta" else "other"
        if there:
            self.setup.load(renamed(Scene(llama(replicas=1)), namespace, name))
        else:
            self.setup.object_cache.clusters.remove(f"uid-of-{namespace}-{name}")

    @rule()
    def publish(self) -> None:
        """Let what changed be one version."""
        self.setup.examine_changed()

    @rule(number=st.integers(0, 3))
    def follow(self, number: int) -> None:
        self.clients[number].catch_up()

    @rule(number=st.integers(0, 3))
    def break_off(self, number: int) -> None:
        """Let a browser receive only the first message, and then connect again."""
        client = self.clients[number]
        for message in client.messages()[:1]:
            client.tab.take(message)
        client.received = None

    @invariant()
    def a_new_page_has_each_id_once(self) -> None:
        for client in self.clients:
            ids = [
                each.attributes["id"]
                for each in Tab(client.shown().html).root
                if "id" in each.attributes
            ]
            assert len(ids) == len(set(ids))

    def teardown(self) -> None:
        self.setup.examine_changed()
        for client in self.clients:
            client.catch_up()
        examiner = self.setup.live.examiner
        whole = examine(self.setup.object_cache, self.setup.now)
        assert examiner.cluster_report(self.setup.now, {}) == whole


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=8, stateful_step_count=20)


def test_one_host_that_goes_is_one_message_about_its_raycluster_alone() -> None:
    setup = Setup(SCENE.observed(), renamed(Scene(), "other", "qwen"))
    setup.drop_pods(PODS[3][2:3])
    setup.examine_changed()
    client = Client(setup)
    setup.drop_pods(PODS[7][2:3])
    setup.examine_changed()
    (message,) = client.messages()
    assert "llama" in message
    assert "qwen" not in message
    assert message.count('class="row ') == 2
    assert len(message) < 8000


def test_a_page_of_one_namespace_receives_nothing_of_another() -> None:
    setup = Setup(SCENE.observed(), renamed(Scene(), "other", "qwen"))
    nowhere, other = (Client(setup, Query(namespace=name)) for name in ("nowhere", "other"))
    setup.drop_pods(PODS[7])
    setup.object_cache.clusters.remove("uid-of-other-qwen")
    setup.examine_changed()
    assert nowhere.messages() == []
    assert "llama" not in "".join(other.messages())


def test_a_ready_raycluster_is_one_line_and_its_own_page_has_all_replicas() -> None:
    setup = Setup(SCENE.observed())
    line = Client(setup).tab.root
    assert line.every("li", "row") == []
    assert "tpu 15 of 15 replicas complete" in line.text
    whole = Client(setup, Query("team", "llama")).tab.root
    assert len(whole.every("li", "row")) == 15


def test_a_large_raycluster_has_pages_and_those_with_problems_come_first() -> None:
    setup = Setup(Scene(llama(replicas=PAGE_HOSTS // 4 + 5)).observed())
    gone = f"llama-tpu-worker-{PAGE_HOSTS // 4 + 1}-2"
    setup.object_cache.pods.remove(f"uid-of-{gone}")
    setup.examine_changed()
    pages = [Client(setup, Query("team", "llama", page=page)) for page in (1, 2)]
    rows = [page.tab.root.every("li", "row") for page in pages]
    assert [len(each) for each in rows] == [PAGE_HOSTS // 4, 5]
    assert rows[0][0].every("span", "what")[0].text == "host 2 missing"
    for board, last in ((setup.board, 2), (Setup(Scene().observed()).board, 1)):
        found = board.find(Query("team", "llama", page=99))
        assert (found.page, found.pages) == (last, last)


def many(count: int) -> Setup:
    """Return a setup with many RayClusters, of which every tenth lacks a host."""
    setup = Setup()
    scene = Scene(llama(replicas=1))
    for number in range(count):
        lacking = scene if number % 10 else Scene(llama(replicas=1)).without(HOST)
        setup.load(renamed(lacking, f"team-{number % 3}", f"c{number:04}"))
    setup.examine_changed()
    return setup


def test_of_many_rayclusters_a_page_has_some_and_a_query_finds_any() -> None:
    setup = many(3 * LISTED)
    client = Client(setup)
    found = setup.board.find(Query())
    assert (found.every, found.pages) == (150, 3)
    assert found.states == {"degraded": 15, "ready": 135}
    assert found.problems == {"host-missing": 15}
    assert found.namespaces == ["team-0", "team-1", "team-2"]
    assert len(client.names) == LISTED
    assert all(name.endswith("0") for name in client.names[:15])
    for query, listed in (
        (Query(q="C0149"), ["team-2/c0149"]),
        (Query(q="team-1 host-missing c004"), ["team-1/c0040"]),
        (Query(q="c0007-node-0-1"), ["team-1/c0007"]),
        (Query(q="c0007-node-head"), ["team-1/c0007"]),
        (Query(q="no such thing"), []),
        (Query(state="degraded", sort="name", namespace="team-1"), None),
        (Query(problem="host-missing", namespace="team-1"), None),
    ):
        names = Client(setup, query).names
        wanted = [f"team-1/c{number:04}" for number in (10, 40, 70, 100, 130)]
        assert names == (wanted if listed is None else listed), query
    by_name = Client(setup, Query(sort="name", page=3)).names
    assert by_name == sorted(by_name)
    assert len(by_name) == LISTED
    for page, links in ((1, ["next"]), (2, ["prev", "next"]), (3, ["prev"])):
        html = Listing(setup.live, setup.drawer).page({"page": f"{page}"})
        assert re.findall('rel="(prev|next)"', html) == links


def test_a_change_draws_one_raycluster_of_many() -> None:
    setup, drawn = many(3 * LISTED), list[str]()
    draw = setup.drawer.section

    def counting(section: Section) -> str:
        drawn.append(section.cluster.name)
        return draw(section)

    setup.drawer.section = counting  # type: ignore[method-assign]
    setup.object_cache.pods.remove(f"uid-of-team-1-{HOST.replace('llama', 'c0001')}")
    setup.examine_changed()
    client = Client(setup)
    assert drawn == ["c0001"]
    assert len(client.names) == LISTED


def test_age_orders_the_list() -> None:
    setup = Setup(renamed(Scene(), "other", "qwen"), SCENE.observed())
    for uid, name in (("uid-of-llama", "llama"), ("uid-of-other-qwen", "qwen")):
        cluster = setup.live.examiner.clusters[uid]
        setup.board.put(uid, structs.replace(cluster, created=1.0 if name == "llama" else 2.0))
    assert Client(setup, Query(sort="oldest")).names == ["team/llama", "other/qwen"]
    assert Client(setup, Query(sort="newest")).names == ["other/qwen", "team/llama"]
