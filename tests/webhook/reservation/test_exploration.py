"""All interleavings of two processes that assign identities in one group at once."""

from collections.abc import Awaitable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.single_process import Lists
from webhook.api.review import Denied
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import ReadGroup
from webhook.reservation import allocation
from webhook.reservation.allocation import Request
from webhook.reservation.stores import Conflict, MemoryStore, Stored, Table, TableKey

KEY = GroupKey("ns", "uid", "g")
HOSTS = 2
PROCESSES = 2

Place = tuple[int, int]
Event = tuple[str, HostIdentity | None, str]
"""The uid of a pod, and its identity and holder, None if the pod was deleted."""
Step = tuple[str, int]


class Pause(Awaitable[None]):
    """A request to the API server that a step carries out."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class PausedStore(MemoryStore):
    """Tables of all processes; a write or read waits for a step. `log` has the results."""

    conditional = True
    """Whether a table is written on condition of its version."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.version = 0

    async def get(self, key: TableKey) -> Stored | None:
        await Pause()
        stored = await super().get(key)
        self.log.append(f"get {stored and stored.version}")
        return stored

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        await Pause()
        try:
            known = known if self.conditional else await super().get(key)
            stored = await super().write(key, table, cluster, known)
        except Conflict:
            self.log.append("conflict")
            raise
        self.version += 1
        self.log.append(f"wrote {stored.version}")
        return stored


@dataclass(eq=False)
class Process:
    """A process: the number of events that it has received, and its review."""

    store: PausedStore
    members: Membership = field(default_factory=Membership)
    received: int = 0
    review: Coroutine[Any, Any, None] | None = None
    log: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identities = Lists().identities(self.members, self.store)


@dataclass(frozen=True)
class Scene:
    """A group: its desired replicas, the pods that all processes have received, those of them whose
    deletion no process has received, and the number of pods that KubeRay creates.
    """

    desired: int
    complete: tuple[int, ...] = ()
    deleted: tuple[Place, ...] = ()
    created: int = 2


class Interleaving:
    """The steps so far, of the processes over one API server."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.store = PausedStore()
        self.processes = [Process(self.store) for _ in range(PROCESSES)]
        self.history: list[Event] = []
        self.pods: dict[str, HostIdentity] = {}
        self.answers: list[Event] = []
        """Of pods that are not stored yet."""
        self.begun = self.denied = 0
        self.left = scene.created
        self.opened: list[int] = []
        """The numbers of replicas that were incomplete when another one was opened."""
        for replica in scene.complete:
            for host in range(HOSTS):
                identity = HostIdentity(replica, host, f"g-{replica}")
                self._store((f"pod-{replica}-{host}", identity, ""))
        for process in self.processes:
            while process.received < len(self.history):
                self._deliver(process)
        for replica, host in scene.deleted:
            self._store((f"pod-{replica}-{host}", None, ""))

    def steps(self) -> Iterator[Step]:
        is_quiet = not self.answers and all(
            process.review is None and process.received == len(self.history)
            for process in self.processes
        )
        for number, process in enumerate(self.processes):
            if process.review is not None:
                yield "carry out", number
            elif self.left or (self.denied and is_quiet):
                yield "review", number
            if process.received < len(self.history):
                yield "deliver", number
        if self.answers:
            yield "store", 0

    def take(self, step: Step) -> None:
        kind, number = step
        process = self.processes[number]
        if kind == "store":
            self._store(self.answers.pop(0))
        elif kind == "deliver":
            self._deliver(process)
        else:
            if process.review is None:
                if self.left:
                    self.left -= 1
                else:
                    self.denied -= 1
                self.begun += 1
                process.review = self._review(process, f"uid-{self.begun}")
            process.log.append((self.begun, process.received, kind))
            self.store.log.clear()
            try:
                process.review.send(None)
            except StopIteration:
                process.review = None
            process.log.extend(self.store.log)

    def state(self) -> object:
        """Return what later steps depend on."""
        return (
            tuple(sorted(repr((process.log, process.received)) for process in self.processes)),
            tuple(self.history), tuple(self.answers), self.begun, self.left, self.denied,
            tuple(self.opened))  # fmt: skip

    def check(self) -> None:
        """Fail if an identity was given twice, or a replica has two names."""
        identities = self.identities
        places = [(identity.replica, identity.host) for identity in identities]
        assert len(places) == len(set(places)), places
        replicas = {(identity.replica, identity.name) for identity in identities}
        assert len(replicas) == len(self.replicas), replicas
        assert len(replicas) <= self.scene.desired, replicas

    def finish(self) -> None:
        """Deliver all events, and create the pods that lack, one at a time."""
        while len(self.identities) < self.scene.desired * HOSTS or self.answers:
            steps = [step for step in self.steps() if step[0] != "review"]
            if not steps:
                self.left = 1
                steps = list(self.steps())
            self.take(steps[0])
            self.check()

    @property
    def identities(self) -> list[HostIdentity]:
        """Return those of stored and admitted pods."""
        admitted = [identity for _, identity, _ in self.answers if identity is not None]
        return [*self.pods.values(), *admitted]

    @property
    def replicas(self) -> set[int]:
        return {identity.replica for identity in self.identities}

    @property
    def incomplete(self) -> list[int]:
        hosts = [identity.replica for identity in self.identities]
        return [replica for replica in self.replicas if hosts.count(replica) < HOSTS]

    async def _review(self, process: Process, uid: str) -> None:
        def accept(identity: HostIdentity, holder: str) -> tuple[HostIdentity, str]:
            return identity, holder

        for is_read in (False, True):
            request = Request("ray", KEY, HOSTS, self.scene.desired, uid, read=is_read, pod=uid)
            try:
                answer = await process.identities.reserve(request, accept)
            except Denied:
                self.denied += 1
                return
            if not isinstance(answer, ReadGroup):
                identity, holder = answer
                if identity.replica not in self.replicas:
                    self.opened.append(len(self.incomplete))
                self.answers.append((uid, identity, holder))
                return
            await Pause()
            while process.received < len(self.history):
                self._deliver(process)

    def _store(self, event: Event) -> None:
        uid, identity, _ = event
        self.history.append(event)
        if identity is None:
            del self.pods[uid]
        else:
            self.pods[uid] = identity

    def _deliver(self, process: Process) -> None:
        uid, identity, holder = self.history[process.received]
        process.received += 1
        if identity is None:
            process.members.remove(uid)
        else:
            process.members.put(uid, Member(KEY, identity, holder))


def explore(scene: Scene) -> Iterator[Interleaving]:
    """Yield the end of every interleaving, once for each state, checked after each step."""
    states: set[object] = set()
    pending: list[tuple[Step, ...]] = [()]
    while pending:
        steps = pending.pop()
        interleaving = Interleaving(scene)
        for step in steps:
            interleaving.take(step)
        interleaving.check()
        if (state := interleaving.state()) in states:
            continue
        states.add(state)
        next_steps = list(interleaving.steps())
        pending += [(*steps, step) for step in next_steps]
        if not next_steps:
            yield interleaving


CURRENT = {
    "first replica": Scene(desired=2, created=2),
    "next replica": Scene(desired=3, complete=(0,), created=2),
}
"""Only pods that are created are received late."""
LATE = {
    "lost host": Scene(desired=3, complete=(0, 1), deleted=((1, 1),), created=2),
    "replica scaled away, then a host lost": Scene(
        desired=2, complete=(0, 1, 2), deleted=((1, 0), (1, 1), (2, 1)), created=1
    ),
}
"""Deletions, too, are received late."""


def _ends(scene: Scene) -> list[Interleaving]:
    ends = list(explore(scene))
    assert len(ends) > 5
    return ends


@pytest.fixture(params=[allocation.BLOCK, 1], ids=["one table", "a table for each replica"])
def _block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "BLOCK", request.param)


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("scene", CURRENT.values(), ids=CURRENT)
def test_two_processes_fill_a_replica_before_another_is_opened(scene: Scene) -> None:
    for interleaving in _ends(scene):
        assert not any(interleaving.opened)
        interleaving.finish()
        assert not interleaving.incomplete


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("scene", LATE.values(), ids=LATE)
def test_late_deletions_leave_no_replica_incomplete(scene: Scene) -> None:
    """Beside a replica whose lost host no process has received, another may be opened."""
    ends = _ends(scene)
    assert max(sum(interleaving.opened) for interleaving in ends) <= 1
    for interleaving in ends:
        interleaving.finish()
        assert not interleaving.incomplete
        assert interleaving.replicas <= {*range(scene.desired), *scene.complete}


@pytest.mark.usefixtures("_block")
def test_exploration_finds_writes_that_are_unconditional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PausedStore, "conditional", False)
    with pytest.raises(AssertionError):
        list(explore(CURRENT["first replica"]))
