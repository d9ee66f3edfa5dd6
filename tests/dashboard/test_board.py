"""The board: whoever takes in the changes since some version has the page as it is now."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.dashboard.browser import Tab
from tests.dashboard.stage import Stage, renamed
from tests.status.scenes import Object, Scene, llama
from webhook.dashboard import board as boards
from webhook.dashboard.board import BATCH
from webhook.status.examination import examine

SCENE = Scene(llama(replicas=15))
PODS: dict[int, list[Object]] = {
    replica: [SCENE.pods[f"llama-tpu-worker-{replica}-{host}"] for host in range(4)]
    for replica in range(15)
}


class Client:
    """A browser on some namespaces, with the version that it has seen."""

    def __init__(self, stage: Stage, namespaces: frozenset[str] | None) -> None:
        self.stage = stage
        self.namespaces = namespaces
        self.version = stage.board.version
        self.tab = Tab(f'<div id="clusters">{stage.board.html(namespaces)}</div>')

    def catch_up(self) -> None:
        """Take in what has changed."""
        board = self.stage.board
        messages = board.changes(self.version, self.namespaces)
        for message in board.afresh(self.namespaces) if messages is None else messages:
            self.tab.take(message)
        self.version = board.version

    def check(self) -> None:
        """Fail unless the page is as a new one would be."""
        fresh = Tab(f'<div id="clusters">{self.stage.board.html(self.namespaces)}</div>')
        assert self.tab.root.shown() == fresh.root.shown()


class Changes(RuleBasedStateMachine):
    """Lets replicas, hosts and RayClusters come and go, and browsers follow at their own pace."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(SCENE.observed(), renamed(Scene(), "other", "qwen"))
        every = [None, frozenset({"team"}), frozenset({"other", "third"})]
        self.clients = [Client(self.stage, namespaces) for namespaces in every]

    @rule(replica=st.integers(0, 14), hosts=st.sets(st.integers(0, 3), min_size=1))
    def drop(self, replica: int, hosts: set[int]) -> None:
        """Let hosts go."""
        self.stage.drop_pods(PODS[replica][host] for host in hosts)

    @rule(replica=st.integers(0, 14), hosts=st.sets(st.integers(0, 3), min_size=1))
    def restore(self, replica: int, hosts: set[int]) -> None:
        """Let hosts come."""
        self.stage.put_pods(PODS[replica][host] for host in hosts)

    @rule(replica=st.integers(0, 14))
    def swap(self, replica: int) -> None:
        """Let a host be in the seat of another."""
        labels = {**PODS[replica][0]["metadata"]["labels"], "ray.io/replica-host-index": "1"}
        meta = {**PODS[replica][0]["metadata"], "labels": labels}
        self.stage.put_pods([{**PODS[replica][0], "metadata": meta}])

    @rule(wanted=st.integers(0, 18))
    def scale(self, wanted: int) -> None:
        """Let another number of replicas be wanted."""
        (group,) = SCENE.cluster["spec"]["workerGroupSpecs"]
        spec = {**SCENE.cluster["spec"], "workerGroupSpecs": [{**group, "replicas": wanted}]}
        self.stage.put_cluster({**SCENE.cluster, "spec": spec})

    @rule(groups=st.integers(1, 3))
    def regroup(self, groups: int) -> None:
        """Let there be other groups."""
        (group,) = SCENE.cluster["spec"]["workerGroupSpecs"]
        every = [{**group, "groupName": f"more{number}"} for number in range(groups - 1)]
        spec = {**SCENE.cluster["spec"], "workerGroupSpecs": [*every, group]}
        self.stage.put_cluster({**SCENE.cluster, "spec": spec})

    @rule(name=st.sampled_from(["alpha", "qwen", "zeta"]), there=st.booleans())
    def another(self, name: str, *, there: bool) -> None:
        """Let another RayCluster come or go."""
        namespace = "third" if name == "zeta" else "other"
        if there:
            self.stage.load(renamed(Scene(llama(replicas=1)), namespace, name))
        else:
            self.stage.world.clusters.remove(f"uid-of-{namespace}-{name}")

    @rule()
    def publish(self) -> None:
        """Let what changed be one version."""
        self.stage.look()

    @rule(number=st.integers(0, 2))
    def follow(self, number: int) -> None:
        """Let one browser catch up."""
        self.clients[number].catch_up()
        self.clients[number].check()

    @rule(number=st.integers(0, 2))
    def break_off(self, number: int) -> None:
        """Let a browser take in only the first message, and later all of them."""
        client = self.clients[number]
        for message in (self.stage.board.changes(client.version, client.namespaces) or [])[:1]:
            client.tab.take(message)

    @invariant()
    def a_new_page_has_each_id_once(self) -> None:
        """Fail when two elements have one id."""
        fresh = Tab(self.stage.board.html(None))
        ids = [each.attributes["id"] for each in fresh.root if "id" in each.attributes]
        assert len(ids) == len(set(ids))

    def teardown(self) -> None:
        """Let everybody catch up at last."""
        self.stage.look()
        for client in self.clients:
            client.catch_up()
            client.check()
        world, survey = self.stage.world, self.stage.live.survey
        for uid, picture in survey.clusters.items():
            live = world.clusters.get(uid)
            assert live
            assert examine(world.around(live), self.stage.now).clusters == (picture,)


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=8, stateful_step_count=20)


def test_one_host_that_goes_is_one_small_message() -> None:
    stage = Stage(SCENE.observed())
    version = stage.board.version
    stage.drop_pods(PODS[7][2:3])
    stage.look()
    (message,) = stage.board.changes(version, None) or []
    assert message.count('class="row ') == 1
    assert len(message) < 4000


def test_who_may_not_see_a_namespace_hears_nothing_of_it() -> None:
    stage = Stage(SCENE.observed(), renamed(Scene(), "other", "qwen"))
    version = stage.board.version
    stage.drop_pods(PODS[7])
    stage.world.clusters.remove("uid-of-other-qwen")
    stage.look()
    assert stage.board.changes(version, frozenset({"nowhere"})) == []
    assert "llama" not in "".join(stage.board.changes(version, frozenset({"other"})) or [])
    assert "llama" not in stage.board.html(frozenset({"other"}))


def test_a_large_raycluster_comes_in_messages_of_a_bounded_number_of_rows() -> None:
    stage = Stage()
    client = Client(stage, None)
    stage.load(Scene(llama(replicas=2 * BATCH + 5)).observed())
    stage.look()
    messages = stage.board.changes(client.version, None) or []
    assert len(messages) >= 3
    assert max(message.count('class="row ') for message in messages) <= BATCH
    client.catch_up()
    client.check()


def test_who_has_seen_too_little_gets_everything_again() -> None:
    stage = Stage(SCENE.observed())
    client = Client(stage, None)
    for _ in range(boards.REMEMBERED // 15 + 2):
        stage.drop_pods(pod for pods in PODS.values() for pod in pods)
        stage.look()
        stage.put_pods(pod for pods in PODS.values() for pod in pods)
        stage.look()
        if stage.board.changes(client.version, None) is None:
            break
    else:
        raise AssertionError("everything is remembered for ever")
    client.catch_up()
    client.check()
    assert stage.board.changes(stage.board.version + 1, None) is None
