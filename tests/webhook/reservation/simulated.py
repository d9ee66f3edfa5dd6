"""Several webhook processes over one simulated API server, where a test controls when each
operation completes.

Watches are delayed, stall and are listed again; writes and their answers are lost or delayed;
processes stop, with or without their clocks, crash and start; pods and RayClusters are refused
after admission, stored late, edited, deleted and replaced; reviews are cancelled, and repeated at
another process; `numOfHosts` and `replicas` change; KubeRay's gate is switched; tables are deleted
by hand.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from random import Random
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tests.webhook.reservation.server import EPOCH, Pod, Ray, Server, ServerApi, Stored
from webhook.api.objects import RayCluster
from webhook.api.review import Denied, NotNow
from webhook.cache.live import LiveReader, Stores
from webhook.cache.serve_stores import PodStore, RayClusterStore
from webhook.cache.store import Store
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity, ShardKey
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WorkerPod
from webhook.groups.required_reads import ReadGroup
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.kubeclient.timeouts import ServerTime
from webhook.reservation.allocation import Allocation, Found, Request
from webhook.reservation.identities import Identities
from webhook.reservation.reservations import Reservations

T = TypeVar("T", WorkerPod, RayCluster)

Step = tuple[Callable[[Any], None], float]

WEBHOOK_SECONDS = 10.0
"""An answer that comes later goes nowhere."""
ADMISSION_SECONDS = 34.0
"""A pod is not stored later than this after its admission began."""
KUBERAY = "kuberay-"
"""How names of replicas begin that KubeRay gave."""
TURNS = 14
"""Turns of the loop that a step takes at most until everything waits again."""
DATES = (-1, 0, 1)
"""Seconds by which the clocks of the servers of the control plane are wrong."""


@dataclass(eq=False)
class ApiRequest:
    """A request to the API server: carried out at some time, and answered at some time, or not."""

    process: "Process"
    carry_out: Callable[[], bytes]
    answer: "asyncio.Future[bytes]"
    since: float
    deadline: float
    done: bool = False
    result: bytes | ApiError = b""
    date: str = ""


class SimulatedApi(ServerApi):
    """The API server, as one process sends requests to it."""

    def __init__(self, process: "Process") -> None:
        self.server_time = ServerTime(process.clock)
        self.timeout = asyncio.timeout
        self._process = process

    async def ask(self, carry_out: Callable[[Server], bytes], seconds: float) -> bytes:
        """Send a request, and wait for its response."""
        model = self._process.model
        answer: asyncio.Future[bytes] = model.loop.create_future()
        now = model.now
        model.requests.append(
            ApiRequest(self._process, lambda: carry_out(model.server), answer, now, now + seconds)
        )
        return await answer


class Watch(Generic[T]):
    """The list-watch of one kind in a process."""

    def __init__(
        self, process: "Process", feed: Store[T, Any, Any], stored: Stored[Any], kind: type[T]
    ) -> None:
        self.synced = False
        self.cursor = self.behind = 0
        self.listing: asyncio.Task[None] | None = None
        """The last list."""
        self._process = process
        self._feed: Store[T, Any, Any] = feed
        self._stored = stored
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    @property
    def open(self) -> bool:
        """Whether the watch is open: not while the list before it is in progress. The other watch
        continues, and so do the live lists of reviews, beside both.
        """
        return self.listing is None or self.listing.done()

    def list(self) -> None:
        if self.open:
            self.listing = self._process.start(self._list())

    async def _list(self) -> None:
        """List until a list is complete, as a list-watch does."""
        while True:
            try:
                await self._list_once()
            except ApiError:
                await self._process.sleep(0.5)
            else:
                return

    async def _list_once(self) -> None:
        """List in two pages, both as of the version of the first."""
        api, feed = self._process.api, self._feed
        begun = api.server_time.now()
        at: list[int] = []
        bodies: list[bytes] = []

        def first(server: Server) -> bytes:
            at[:] = [server.version, len(self._stored.history)]
            bodies[:] = map(msgspec.json.encode, self._stored.bodies.values())
            return b""

        for page in (0, 1):
            await api.ask((lambda _: b"") if page else first, 60.0)
            if not page:
                feed.begin(at[0])
            for body in bodies[page::2]:
                feed.item(self._decoder.decode(body))
        feed.end(begun)
        feed.contacted(begun)
        self.cursor, self.synced = at[1], True

    def receive(self, count: int) -> None:
        """Receive some of what happened."""
        if not self.open:
            return
        history = self._stored.history
        count = max(count, self.behind - self.cursor)
        for version, uid, body in history[self.cursor : self.cursor + count]:
            if uid:
                self._feed.remove(uid)
            else:
                self._feed.put(self._decoder.decode(body))
            self._feed.reach(version)
        self.cursor = min(len(history), self.cursor + count)
        if self.cursor == len(history):
            self._feed.reach(self._process.model.server.version)  # a bookmark
        self._feed.contacted(self._process.api.server_time.now())


class Process:
    """One webhook process: the classes of the product, with a simulated way to the API server."""

    def __init__(self, model: "Model", number: int) -> None:
        self.model = model
        self.number = number
        self.alive = True
        self.paused = False
        self.stood_still = 0.0
        self.stopped_at = 0.0
        """When its clock stopped; 0 while it runs."""
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self.tasks: list[asyncio.Task[Any]] = []
        members, clusters = Membership(), ClusterIndex()
        stores = Stores(PodStore(members), RayClusterStore(clusters))
        self.api = SimulatedApi(self)
        self.store = LeaseStore(self.api, "system")
        self.lists = LiveReader(self.api, {"": stores})
        self.reservations = Reservations(self.store, self.lists, members, clusters)
        self.reservations.clock, self.reservations.sleep = self.clock, self.sleep
        self.identities = Identities(self.reservations)
        self.pods = Watch(self, stores.pods, model.server.pods, WorkerPod)
        self.rays = Watch(self, stores.clusters, model.server.rays, RayCluster)
        self.list()

    @property
    def synced(self) -> bool:
        return self.pods.synced and self.rays.synced

    def list(self) -> None:
        """List pods and RayClusters, each by itself, and watch from there."""
        self.pods.list()
        self.rays.list()

    def clock(self) -> float:
        """Return monotonic time, which does not pass while the machine stands still."""
        now = self.stopped_at or self.model.now
        return now - self.stood_still + self.number * 1000.0

    async def sleep(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = self.model.loop.create_future()
        self.sleepers.append((self.model.now + seconds, waiter))
        await waiter

    def wake(self) -> None:
        """End the sleeps whose time is up."""
        due = [waiter for at, waiter in self.sleepers if at <= self.model.now]
        self.sleepers = [(at, waiter) for at, waiter in self.sleepers if at > self.model.now]
        for waiter in due:
            if not waiter.done():
                waiter.set_result(None)

    def pause(self, *, clock: bool) -> None:
        """Stop, or go on; with `clock`, monotonic time stops too."""
        self.paused = not self.paused
        if self.paused and clock:
            self.stopped_at = self.model.now
        elif self.stopped_at:
            self.stood_still += self.model.now - self.stopped_at
            self.stopped_at = 0.0

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks = [task for task in self.tasks if not task.done()]
        task = self.model.loop.create_task(work)
        self.tasks.append(task)
        return task


class Model:
    """A server, processes, and pods in admission. `step` does one thing that may happen."""

    chances: ClassVar[Sequence[Step]]
    """The steps, and how often one is taken."""

    def __init__(self, seed: int, processes: int) -> None:
        self.random = Random(seed)  # noqa: S311 - a story, not a secret
        self.loop = asyncio.new_event_loop()
        self.now = 1.0
        self.server = Server()
        self.requests: list[ApiRequest] = []
        self.pods: list[Pod] = []
        self.known_by_labels: set[str] = set()
        """Pods whose entries were deleted by hand: no one edits their labels."""
        self.groups = {
            GroupKey("ns", "uid", f"group-{i}"): self.random.choice([1, 2, 4]) for i in range(3)
        }
        self.labelled = dict.fromkeys(self.groups, False)
        self.shards = [ShardKey("ns", "blue"), ShardKey("ns", "green")]
        self.rays: list[Ray] = []
        self.count = 0
        self._errors: list[BaseException] = []
        self.loop.set_exception_handler(
            lambda _, context: self._errors.append(
                context.get("exception") or AssertionError(context)
            )
        )
        asyncio.set_event_loop(self.loop)
        self.processes = [Process(self, number) for number in range(processes)]
        self.born = processes
        self.settle()

    def close(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # What happens

    def step(self) -> None:
        """Let one thing happen, and check what must hold."""
        happenings, weights = zip(*self.chances, strict=True)
        self.random.choices(happenings, weights)[0](self)
        self.settle()
        self.check()

    def end(self) -> None:
        """Let all that waits end."""

    def create(self) -> None:
        """KubeRay creates a pod, without an identity or, with its gate on, with one."""
        key = self.random.choice(list(self.groups))
        process = self._any_process()
        if process is None:
            return
        self.count += 1
        claimed = not self.labelled[key]
        pod = Pod(key=key, uid=f"pod-{self.count}", began=self.now, claimed=claimed)
        if self.labelled[key]:
            if any(other.key == key and other.underway for other in self.pods):
                return
            pod.identity = self._free_identity(key)
            self.pods.append(pod)
            return
        self.pods.append(pod)
        process.start(self._admit(process, pod))

    def repeat(self) -> None:
        """The connection of a review breaks, and the API server sends it to another process."""
        waiting = [
            pod for pod in self.pods if pod.underway and pod.claimed and pod.identity is None
        ]
        process = self._any_process()
        if waiting and process is not None:
            pod = self.random.choice(waiting)
            pod.attempt += 1
            process.start(self._admit(process, pod))

    def desired(self, key: GroupKey) -> int:
        """Return the desired replicas of a group, as the RayCluster in the cache has it."""
        del key
        return self.random.choice([0, 1, 2, 4, 1 << 10])

    async def _admit(self, process: Process, pod: Pod) -> None:
        read, attempt, desired = False, pod.attempt, self.desired(pod.key)
        while True:
            hosts = self.groups[pod.key]
            wanted = Request("ray", pod.key, hosts, desired, pod.uid, read)
            try:
                answer = await process.identities.reserve(wanted, lambda *found: found)
                if isinstance(answer, ReadGroup):
                    await process.lists.relist(pod.key, "ray")
                    read = True
                    continue
            except (NotNow, Denied):
                answer = None
            if pod.attempt != attempt or not process.alive:
                return
            if answer is None and self.random.random() < 0.5:
                self.repeat_of(pod)
            elif answer is None or self.now > pod.began + WEBHOOK_SECONDS:
                pod.over = True
            else:
                pod.identity, pod.holder = answer
            return

    def repeat_of(self, pod: Pod) -> None:
        """The API server repeats a review that was answered with 503."""
        process = self._any_process()
        if process is not None and self.now <= pod.began + WEBHOOK_SECONDS:
            pod.attempt += 1
            process.start(self._admit(process, pod))
        else:
            pod.over = True

    def cancel(self) -> None:
        """A review is cancelled, as its connection was closed; nothing repeats it."""
        process = self._any_process()
        if process is not None and process.tasks:
            task = self.random.choice(process.tasks)
            if task not in (process.pods.listing, process.rays.listing):
                task.cancel()

    def store(self) -> None:
        """A pod that has its identity is stored, or refused by somebody after us."""
        ready = [pod for pod in self.pods if pod.underway and pod.identity is not None]
        if not ready:
            return
        pod = self.random.choice(ready)
        if self.now > pod.began + ADMISSION_SECONDS or self.random.random() < 0.15:
            pod.over = True
            return
        pod.stored = True
        self.server.put(self.server.pods, pod, gone=pod.gone)

    def change(self) -> None:
        """A pod changes, loses its labels, is being deleted, or is gone."""
        stored = list(self.server.pods.values())
        if not stored:
            return
        pod = self.random.choice(stored)
        what = self.random.random()
        if what < 0.5:
            pod.terminating = True
        if what < 0.25:
            pod.gone = True
        if what > 0.9 and pod.holder and pod.uid not in self.known_by_labels:
            pod.unlabelled = what > 0.95
            pod.moved = self.random.randrange(3)
        self.server.put(self.server.pods, pod, gone=pod.gone)

    def create_ray(self) -> None:
        """Somebody creates a RayCluster of a shard group, perhaps with an index of his own."""
        process = self._any_process()
        if process is None:
            return
        self.count += 1
        name = self.random.choice(["", "ray-0", "ray-1", "ray-2", "ray-3", "ray-4", "ray-5"])
        given = self.random.randrange(4) if self.random.random() < 0.1 else None
        key, uid = self.random.choice(self.shards), f"uid-{self.count}"
        ray = Ray(key=key, uid=uid, name=name, began=self.now, given=given)
        self.rays.append(ray)
        process.start(self._admit_ray(process, ray))

    async def _admit_ray(self, process: Process, ray: Ray) -> None:
        given = None if ray.given is None else HostIdentity(ray.given, 0, "")
        wanted = Request(ray.name, ray.key, 1, MAX_REPLICAS, ray.uid, given=given)
        found: Found | None = None
        with suppress(NotNow, Denied):
            found = await process.reservations.reserve(wanted, lambda found, _: found)
        late = self.now > ray.began + WEBHOOK_SECONDS
        if not isinstance(found, Allocation) or not process.alive or late:
            ray.over = True
        else:
            ray.index = found.index

    def store_ray(self) -> None:
        """A RayCluster that has its index is stored, or refused: its name may be taken."""
        ready = [ray for ray in self.rays if ray.underway and ray.index is not None]
        if not ready:
            return
        ray = self.random.choice(ready)
        taken = ray.name in {other.name for other in self.server.rays.values()}
        late = self.now > ray.began + ADMISSION_SECONDS
        if late or taken or self.random.random() < 0.15:
            ray.over = True
            return
        ray.name = ray.name or f"made-{ray.uid}"
        ray.stored = True
        self.server.put(self.server.rays, ray)

    def change_ray(self) -> None:
        """A RayCluster changes, or is gone."""
        stored = list(self.server.rays.values())
        if stored:
            ray = self.random.choice(stored)
            self.server.put(self.server.rays, ray, gone=self.random.random() < 0.6)

    def request(self) -> None:
        """Requests are carried out, or answered, or both."""
        for request in self.random.sample(self.requests, min(2, len(self.requests))):
            self._advance(request)

    def _advance(self, request: ApiRequest) -> None:
        chance = self.random.random()
        if not request.done:
            self.carry_out(request)
            if chance < 0.3:
                return
        if request.process.paused:
            return
        self.requests.remove(request)
        self.answer(request, lost=chance > 0.97)

    def carry_out(self, request: ApiRequest) -> None:
        """Let the API server carry out a request."""
        request.done = True
        wrong = self.random.choice(DATES)
        request.date = formatdate(int(EPOCH + self.now + wrong), usegmt=True)
        try:
            request.result = request.carry_out()
        except ApiError as error:
            request.result = error

    def answer(self, request: ApiRequest, *, lost: bool = False) -> None:
        """Let a process receive a response."""
        if request.answer.done() or not request.process.alive:
            return
        if not lost:
            request.process.api.server_time.observe(request.date)
        if lost:
            request.answer.set_exception(ApiError("disconnected", "the answer was lost"))
        elif isinstance(request.result, ApiError):
            request.answer.set_exception(request.result)
        else:
            request.answer.set_result(request.result)

    def answer_all(self) -> None:
        """Carry out and answer all requests, also those that follow."""
        self.settle()
        while self.requests:
            for request in self.requests:
                if not request.done:
                    self.carry_out(request)
                self.answer(request)
            self.requests = []
            self.settle()

    def pods_watched(self) -> None:
        """A watch of pods receives some of what happened, or all."""
        if process := self._any_process():
            process.pods.receive(self.random.choice([1, 1, 3, 1 << 30]))

    def rays_watched(self) -> None:
        """A watch of RayClusters receives some of what happened, or all."""
        if process := self._any_process():
            process.rays.receive(self.random.choice([1, 3, 1 << 30]))

    def listed(self) -> None:
        if process := self._any_process():
            process.list()

    def swept(self) -> None:
        """A process deletes the tables of RayClusters that do not exist."""
        if process := self._any_process():
            process.start(self._clean_up(process))

    async def _clean_up(self, process: Process) -> None:
        with suppress(ApiError):
            await process.store.clean_up()

    def time(self) -> None:
        """Time passes, mostly little; what has waited too long gives up."""
        self.now += self.random.choices(
            [0.002, 0.02, 0.1, 0.5, 2.5, 6.0, 35.0, 61.0], [25, 25, 20, 12, 6, 6, 3, 3]
        )[0]
        self.give_up()

    def crash(self) -> None:
        """A process is killed, and another one started; its requests are in progress still."""
        place = self.random.randrange(len(self.processes))
        process = self.processes[place]
        process.alive = False
        for task in process.tasks:
            task.cancel()
        for pod in self.pods:
            if pod.claimed and pod.identity is None and self.random.random() < 0.3:
                pod.over = True
        self.processes[place] = Process(self, self.born)
        self.born += 1

    def pause(self) -> None:
        """A process stops, or continues; its clock may stop too."""
        process = self.random.choice(self.processes)
        if process.paused or self.random.random() < 0.4:
            process.pause(clock=self.random.random() < 0.5)

    def gate(self) -> None:
        """KubeRay is restarted with its gate switched, when nothing is in progress in the group."""
        key = self.random.choice(list(self.groups))
        if any(pod.key == key and pod.underway for pod in self.pods):
            return
        self.labelled[key] = not self.labelled[key]
        self._after_10_seconds()

    def table_deleted(self) -> None:
        """Somebody deletes a table, while no pod is in progress or known by its entry alone."""
        underway: list[Pod | Ray] = [*self.pods, *self.rays]
        edited = any(pod.unlabelled or pod.moved for pod in self.server.pods.values())
        if self.server.leases and not edited and not any(each.underway for each in underway):
            self.server.version += 1
            del self.server.leases[self.random.choice(list(self.server.leases))]
            self.known_by_labels |= set(self.server.pods)
            self._after_10_seconds()

    def _after_10_seconds(self) -> None:
        """Let 10 s pass. A watch that is not silent receives all; one that is may stay so."""
        self.now += 10.0
        self.give_up()
        for process in self.processes:
            if not process.paused and self.random.random() < 0.5:
                process.pods.receive(1 << 30)
                process.rays.receive(1 << 30)
            else:
                process.pods.behind = len(self.server.pods.history)

    def hosts(self) -> None:
        """Somebody changes `numOfHosts`."""
        self.groups[self.random.choice(list(self.groups))] = self.random.choice([1, 2, 4])

    # What must hold

    def check(self) -> None:
        """No two live pods of a group have one identity, a replica has one name of ours, and no two
        RayClusters of a shard group have one index.

        KubeRay may begin a replica under its own name, with the gate on, where the pod of one that
        we began was refused.
        """
        held: dict[tuple[GroupKey, int, int], Pod] = {}
        called: dict[tuple[GroupKey, int], str] = {}
        for pod in self.server.pods.values():
            identity = pod.identity
            if not pod.live or identity is None:
                continue
            other = held.setdefault((pod.key, identity.replica, identity.host), pod)
            assert other is pod, (
                f"{pod.uid} and {other.uid} both have {identity} of {pod.key.group}, {self.now:.0f}"
            )
            if pod.claimed and identity.name and not identity.name.startswith(KUBERAY):
                name = called.setdefault((pod.key, identity.replica), identity.name)
                assert name == identity.name, (
                    f"replica {identity.replica} of {pod.key.group}: {name} and {identity.name}"
                )
        replicas = {name: place for place, name in called.items()}
        assert len(replicas) == len(called), f"two replicas have one name: {called}"
        owners: dict[tuple[ShardKey, int | None], Ray] = {}
        for ray in self.server.rays.values():
            owner = owners.setdefault((ray.key, ray.index), ray)
            assert owner is ray, (
                f"{ray.name} and {owner.name} both have index {ray.index} of {ray.key.group} at "
                f"{self.now:.0f}"
            )
        if self._errors:
            raise self._errors[0]

    # How it continues

    def _any_process(self) -> Process | None:
        awake = [process for process in self.processes if process.synced and not process.paused]
        return self.random.choice(awake) if awake else None

    def _free_identity(self, key: GroupKey) -> HostIdentity:
        live = [
            (pod.identity, pod) for pod in self.server.pods.values() if pod.key == key and pod.live
        ]
        taken = {(identity.replica, identity.host) for identity, _ in live if identity}
        hosts, place = self.groups[key], 0
        while divmod(place, hosts) in taken:
            place += 1
        replica, host = divmod(place, hosts)
        others = (
            identity.name
            for identity, _ in live
            if identity and identity.replica == replica and identity.name
        )
        return HostIdentity(
            replica, host, "" if hosts == 1 else next(others, f"{KUBERAY}{self.count}")
        )

    def give_up(self) -> None:
        """Let requests and admissions end that have waited too long."""
        underway: list[Pod | Ray] = [*self.pods, *self.rays]
        for each in underway:
            if each.underway and self.now > each.began + ADMISSION_SECONDS:
                each.over = True
        self.pods = [pod for pod in self.pods if pod.underway]
        self.rays = [ray for ray in self.rays if ray.underway]
        for request in [request for request in self.requests if request.deadline <= self.now]:
            if not request.process.paused and not request.answer.done() and request.process.alive:
                request.answer.set_exception(ApiError("timeout", "no answer in time"))
            if request.since + 60.0 <= self.now and not request.process.paused:
                self.requests.remove(request)

    def settle(self) -> None:
        """Let the loop turn until everything waits."""
        self.loop.run_until_complete(self._turns())

    async def _turns(self) -> None:
        for _ in range(TURNS):
            for process in self.processes:
                if process.sleepers and not process.paused:
                    process.wake()
            await asyncio.sleep(0)


Model.chances = [
    (Model.create, 40), (Model.repeat, 3), (Model.cancel, 0.5), (Model.store, 40),
    (Model.change, 10), (Model.request, 110), (Model.pods_watched, 20), (Model.listed, 2),
    (Model.swept, 0.3), (Model.time, 15), (Model.crash, 0.5), (Model.pause, 1), (Model.gate, 1),
    (Model.hosts, 1), (Model.table_deleted, 0.3), (Model.create_ray, 8), (Model.store_ray, 8),
    (Model.change_ray, 4), (Model.rays_watched, 10),
]  # fmt: skip
