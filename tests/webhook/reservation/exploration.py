"""All interleavings of two processes that assign identities in one group at once, by pods that they
have received in part.

A step starts a review, carries out the request to the API server for which a review waits, stores
the pod of an answer, or delivers an event to a process. Interleavings that lead to the same state
are played once.
"""

from collections.abc import Awaitable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.harness.single_process import Lists
from webhook.api.review import Denied
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import ReadGroup
from webhook.reservation.allocation import Request
from webhook.reservation.stores import Conflict, MemoryStore, Stored, Table, TableKey

KEY = GroupKey("ns", "uid", "g")
HOSTS = 2
PROCESSES = 2
CONDITIONAL = True
"""Whether a table is written on condition of its version."""

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
            known = known if CONDITIONAL else await super().get(key)
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
