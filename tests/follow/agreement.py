"""Several webhook processes over one simulated API server, where everything that takes time ends
when a story says so.

Watches are late, stall and are listed again; writes and their answers are lost, or late; processes
pause, crash and come back; pods and RayClusters are refused after us, deleted and replaced;
KubeRay's gate is switched; Leases are deleted; a backup is restored.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from webhook.admission.errors import ClusterUnreadable, NotNow
from webhook.follow.claims import LeaseClaims
from webhook.follow.errors import ApiError
from webhook.follow.lease_claims import LeaseIndices, LeaseSeats
from webhook.follow.leases import Lease, write_page
from webhook.follow.pods import PodFeed, WorkerPod
from webhook.follow.rayclusters import LiveRayCluster, RayClusterFeed
from webhook.follow.timing import World
from webhook.groups.clusters import ClusterIndex
from webhook.groups.ledger import Key, Page, Value
from webhook.groups.membership import Membership
from webhook.groups.reads import ReadGroup
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import Wanted
from webhook.groups.shards import Holder, ShardKey, Shards, WantedIndex
from webhook.kube import names
from webhook.kube.review import Denied

WEBHOOK_SECONDS = 10.0
"""An answer that comes later goes nowhere."""
ADMISSION_SECONDS = 34.0
"""A pod is not stored later than this after its admission began."""
LEASES = 2
KUBERAY = "kuberay-"
"""How names of replicas begin that KubeRay gave."""
TURNS = 12
"""Turns of the loop that a step takes at most until everything waits again."""


@dataclass(eq=False)
class Pod:
    """A pod, from its admission on."""

    key: GroupKey
    uid: str
    began: float
    claimed: bool
    seat: Seat | None = None
    stored: bool = False
    terminating: bool = False
    gone: bool = False
    over: bool = False

    @property
    def live(self) -> bool:
        """Whether it holds its seat."""
        return self.stored and not self.terminating and not self.gone

    @property
    def underway(self) -> bool:
        """Whether it may yet be stored."""
        return not self.stored and not self.over


@dataclass(eq=False)
class Ray:
    """A RayCluster of a shard group, from its admission on. Its name may have to be generated."""

    key: ShardKey
    uid: str
    name: str
    began: float
    given: int | None = None
    index: int | None = None
    stored: bool = False
    over: bool = False

    @property
    def underway(self) -> bool:
        """Whether it may yet be stored."""
        return not self.stored and not self.over


@dataclass(eq=False)
class Request:
    """A request to the API server: made, carried out at some time, and answered at some time, or
    not.
    """

    process: "Process"
    carry_out: Callable[[], Any]
    answer: "asyncio.Future[Any]"
    since: float
    deadline: float
    done: bool = False
    result: Any = None


@dataclass
class Server:
    """What the API server stores: the truth. Watches are told its history."""

    version: int = 10
    pods: dict[str, Pod] = field(default_factory=dict)
    history: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Version, whether it is DELETED, and the pod."""
    current: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    rays: dict[str, Ray] = field(default_factory=dict)
    ray_history: list[tuple[int, str, bytes]] = field(default_factory=list)
    """As `history`, of RayClusters."""
    current_rays: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    lease_history: list[Lease | str] = field(default_factory=list)
    """A Lease as it became, or the uid of one that was deleted."""
    uids: int = 0

    def tell(self, pod: Pod) -> None:
        """Note a change of a pod."""
        self.version += 1
        body = _pod(pod, self.version)
        if pod.gone:
            del self.current[pod.uid]
            del self.pods[pod.uid]
            self.history.append((self.version, pod.uid, b""))
        else:
            self.current[pod.uid] = self.version, body
            self.pods[pod.uid] = pod
            self.history.append((self.version, "", body))

    def tell_ray(self, ray: Ray, *, gone: bool = False) -> None:
        """Note a change of a RayCluster."""
        self.version += 1
        if gone:
            del self.current_rays[ray.uid]
            del self.rays[ray.uid]
            self.ray_history.append((self.version, ray.uid, b""))
        else:
            body = _ray(ray, self.version)
            self.current_rays[ray.uid] = self.version, body
            self.rays[ray.uid] = ray
            self.ray_history.append((self.version, "", body))

    def backup(self) -> "Server":
        """Return what is stored, as it stays in a backup."""
        return Server(
            version=self.version,
            pods={uid: replace(pod) for uid, pod in self.pods.items()},
            current=dict(self.current),
            rays={uid: replace(ray) for uid, ray in self.rays.items()},
            current_rays=dict(self.current_rays),
            leases=dict(self.leases),
        )

    def restore(self, backup: "Server") -> None:
        """Store what a backup has, at its version."""
        self.version = backup.version
        copy = backup.backup()
        self.pods, self.current = copy.pods, copy.current
        self.rays, self.current_rays = copy.rays, copy.current_rays
        self.leases = copy.leases
        self.history, self.ray_history, self.lease_history = [], [], []

    def write(self, name: str, page: Page, uid: str) -> Lease:
        """Store a Lease."""
        self.version += 1
        meta = {
            "name": name,
            "uid": uid,
            "resourceVersion": str(self.version),
            "annotations": {names.ANNOTATION_CLAIMS: write_page(page, LEASES)},
        }
        lease = self.leases[name] = msgspec.convert({"metadata": meta}, Lease)
        self.lease_history.append(lease)
        return lease


class Process:
    """One webhook process: the product's claims and feed, with a simulated way to
    the API server.
    """

    def __init__(self, model: "Model", number: int) -> None:
        self.model = model
        self.number = number
        self.alive = True
        self.paused = False
        self.members = Membership()
        self.clusters = ClusterIndex()
        self.shards = Shards(self.clusters)
        self.sleepers: list[tuple[float, asyncio.Future[None]]] = []
        world = World(
            random=model.random.random, clock=lambda: model.now + number * 1000.0, sleep=self._sleep
        )
        self.clock = world.clock
        self.claims = model.claims(self, world)
        self.seats = LeaseSeats(self.members, self.claims, self.clock)
        self.indices = LeaseIndices(self.shards, self.claims, self.clock)
        self.feed = PodFeed(self.members, "", self.claims.saw)
        self.ray_feed = RayClusterFeed(self.clusters, self.shards, "", self.claims.saw)
        self.cursor = self.ray_cursor = 0
        self.behind = 0
        """A silent watch that speaks again tells at least so much."""
        self.lease_cursor = 0
        self.tasks: list[asyncio.Task[Any]] = [model.loop.create_task(self.claims.run())]
        self.list_pods()
        self.list_rays()
        self.list_leases()

    async def _sleep(self, seconds: float) -> None:
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

    # The watches

    def list_pods(self) -> None:
        """List the pods, and watch from there."""
        server = self.model.server
        self.feed.begin(server.version)
        for _, body in server.current.values():
            self.feed.item(_decoded(body))
        self.feed.end()
        self.feed.heard(self.clock())
        self.cursor = len(server.history)

    def watch_pods(self, count: int) -> None:
        """Be told of some of what happened to pods."""
        history = self.model.server.history
        count = max(count, self.behind - self.cursor)
        for version, uid, body in history[self.cursor : self.cursor + count]:
            if uid:
                self.feed.remove(uid)
            else:
                self.feed.put(_decoded(body))
            self.feed.reach(version)
        self.cursor = min(len(history), self.cursor + count)
        self.feed.heard(self.clock())

    def list_rays(self) -> None:
        """List the RayClusters, and watch from there."""
        server = self.model.server
        self.ray_feed.begin(server.version)
        for _, body in server.current_rays.values():
            self.ray_feed.item(_decoded_ray(body))
        self.ray_feed.end()
        self.ray_feed.heard(self.clock())
        self.ray_cursor = len(server.ray_history)

    def watch_rays(self, count: int) -> None:
        """Be told of some of what happened to RayClusters."""
        history = self.model.server.ray_history
        for version, uid, body in history[self.ray_cursor : self.ray_cursor + count]:
            if uid:
                self.ray_feed.remove(uid)
            else:
                self.ray_feed.put(_decoded_ray(body))
            self.ray_feed.reach(version)
        self.ray_cursor = min(len(history), self.ray_cursor + count)
        self.ray_feed.heard(self.clock())

    def list_leases(self) -> None:
        """List the Leases, and watch from there."""
        server = self.model.server
        self.claims.begin(server.version)
        for lease in server.leases.values():
            self.claims.item(lease)
        self.claims.end()
        self.lease_cursor = len(server.lease_history)

    def watch_leases(self, count: int) -> None:
        """Be told of some of what happened to Leases."""
        history = self.model.server.lease_history
        for told in history[self.lease_cursor : self.lease_cursor + count]:
            if isinstance(told, str):
                self.claims.remove(told)
            else:
                self.claims.put(told)
        self.lease_cursor = min(len(history), self.lease_cursor + count)

    # Whatever is asked for
    async def ask(self, carry_out: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401
        """Ask the API server something, and wait."""
        answer: asyncio.Future[Any] = self.model.loop.create_future()
        self.model.requests.append(
            Request(self, carry_out, answer, self.model.now, self.model.now + seconds)
        )
        return await answer


class Store:
    """The Leases, as a process asks for them."""

    leases = LEASES

    def __init__(self, process: Process) -> None:
        self._process = process

    async def read(self, name: str) -> Lease:
        """Read a Lease."""
        found: Lease = await self._process.ask(lambda: self._found(name), 2.0)
        return found

    async def create(self, name: str) -> Lease:
        """Create a Lease."""
        server = self._process.model.server

        def create() -> Lease:
            if name in server.leases:
                raise ApiError("conflict", "it is there")
            server.uids += 1
            return server.write(name, Page(), f"lease-{server.uids}")

        made: Lease = await self._process.ask(create, 2.0)
        return made

    async def replace(self, name: str, page: Page, known: Lease) -> Lease:
        """Write a Lease, if it is the one that is known."""

        def replace() -> Lease:
            if self._found(name) is not known and self._found(name).metadata != known.metadata:
                raise ApiError("conflict", "it has changed")
            return self._process.model.server.write(name, page, known.metadata.uid)

        written: Lease = await self._process.ask(replace, 2.0)
        return written

    def _found(self, name: str) -> Lease:
        if name not in self._process.model.server.leases:
            raise ApiError("missing", "there is none")
        return self._process.model.server.leases[name]


class Objects:
    """The pods and RayClusters, as a process knows them."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def hold(self, key: Key, value: Value) -> None:
        """Hold a seat or an index."""
        if isinstance(value, Seat):
            self._process.members.hold(_seats(key), value)
        else:
            self._process.shards.hold(_indices(key), value)

    def free(self, key: Key, value: Value) -> None:
        """Free a seat or an index."""
        if isinstance(value, Seat):
            self._process.members.free(_seats(key), value)
        else:
            self._process.shards.free(_indices(key), value)

    def seen(self, key: Key, value: Value) -> int:
        """Look for a pod or a RayCluster."""
        if isinstance(value, Seat):
            return self._process.feed.seen(_seats(key), value)
        return self._process.ray_feed.seen(_indices(key), value.index)

    def told(self, key: Key) -> int:
        """Tell how much is known."""
        if isinstance(key, GroupKey):
            return self._process.feed.told(key)
        return self._process.ray_feed.told(key.namespace)

    def newest(self, key: Key) -> int:
        """Tell the highest version of the objects of a group."""
        if isinstance(key, GroupKey):
            return self._process.feed.newest(key)
        return self._process.ray_feed.newest(key.namespace)

    def latest(self, key: Key) -> int:
        """Tell what nothing is newer than."""
        process = self._process
        return process.feed.latest if isinstance(key, GroupKey) else process.ray_feed.latest

    def heard_at(self, key: Key) -> float:
        """Tell when the watch spoke."""
        process = self._process
        return process.feed.heard_at if isinstance(key, GroupKey) else process.ray_feed.heard_at

    async def read(self, key: Key) -> None:
        """List a group live, or all RayClusters."""
        process, server = self._process, self._process.model.server
        begun = process.clock()

        def pods() -> tuple[int, list[bytes]]:
            return server.version, [
                body for uid, (_, body) in server.current.items() if server.pods[uid].key == key
            ]

        def rays() -> tuple[int, list[bytes]]:
            return server.version, [body for _, body in server.current_rays.values()]

        try:
            version, bodies = await process.ask(pods if isinstance(key, GroupKey) else rays, 3.0)
        except ApiError as error:
            raise ClusterUnreadable(str(error)) from error
        if isinstance(key, GroupKey):
            process.feed.read(key, [_decoded(body) for body in bodies], version, begun)
        else:
            process.ray_feed.read_all(key.namespace, map(_decoded_ray, bodies), version)


class Model:
    """The world: a server, processes, and pods on their way. `step` does one thing that may happen,
    by chance.
    """

    def __init__(
        self, seed: int, processes: int, claims: Callable[..., LeaseClaims] = LeaseClaims
    ) -> None:
        self.random = Random(seed)  # noqa: S311 - a story, not a secret
        self.loop = asyncio.new_event_loop()
        self.now = 0.0
        self.server = Server()
        self.requests: list[Request] = []
        self.pods: list[Pod] = []
        self.groups = {
            GroupKey("ns", "uid", f"group-{i}"): self.random.choice([1, 2, 4]) for i in range(3)
        }
        self.labelled = dict.fromkeys(self.groups, False)
        self.shards = [ShardKey("ns", "blue"), ShardKey("ns", "green")]
        self.rays: list[Ray] = []
        self.kept: Server | None = None
        self.count = 0
        self.seated = self.indexed = self.restored = 0
        self.log: list[str] = []
        self._make = claims
        self._errors: list[BaseException] = []
        self.loop.set_exception_handler(
            lambda _, context: self._errors.append(
                context.get("exception") or AssertionError(context)
            )
        )
        asyncio.set_event_loop(self.loop)
        self.processes = [Process(self, number) for number in range(processes)]
        self.born = processes
        self._settle()

    def claims(self, process: Process, world: World) -> LeaseClaims:
        """Return the claims of a new process."""
        return self._make(Store(process), Objects(process), None, world)

    def close(self) -> None:
        """End it."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # What happens

    def step(self) -> None:
        """Let one thing happen, and check what must hold."""
        happening = self.random.choices(_HAPPENINGS, _WEIGHTS)[0]
        happening(self)
        self._settle()
        self.check()

    def create(self) -> None:
        """KubeRay creates a pod, without a seat or, with its gate on, with one."""
        key = self.random.choice(list(self.groups))
        process = self._any_process()
        if process is None:
            return
        self.count += 1
        pod = Pod(key, f"pod-{self.count}", self.now, claimed=not self.labelled[key])
        if self.labelled[key]:
            if any(other.key == key and other.underway for other in self.pods):
                return
            pod.seat = self._free_seat(key)
            process.seats.carried(key, pod.seat, pod.uid, process.clock())
            self.pods.append(pod)
            return
        self.pods.append(pod)
        self._start(process, self._admit(process, pod))

    async def _admit(self, process: Process, pod: Pod) -> None:
        read = False
        while pod.seat is None:
            wanted = Wanted("ray", pod.key, self.groups[pod.key], 1 << 10, pod.uid, read)
            try:
                answer = await process.seats.claim(wanted, lambda seat: seat, process.clock())
            except (NotNow, Denied):
                pod.over = True
                return
            if isinstance(answer, ReadGroup):
                read = True
                continue
            if not process.alive or self.now > pod.began + WEBHOOK_SECONDS:
                pod.over = True
                return
            pod.seat = answer

    def store(self) -> None:
        """A pod that has its seat is stored, or refused by somebody after us."""
        ready = [pod for pod in self.pods if pod.underway and pod.seat is not None]
        if not ready:
            return
        pod = self.random.choice(ready)
        if self.now > pod.began + ADMISSION_SECONDS or self.random.random() < 0.15:
            pod.over = True
            return
        pod.stored = True
        self.seated += 1
        self.server.tell(pod)

    def change(self) -> None:
        """A pod changes, is being deleted, or is gone."""
        stored = list(self.server.pods.values())
        if not stored:
            return
        pod = self.random.choice(stored)
        what = self.random.random()
        if what < 0.5:
            pod.terminating = True
        if what < 0.25:
            pod.gone = True
        self.server.tell(pod)

    def create_ray(self) -> None:
        """Somebody creates a RayCluster of a shard group, perhaps with an index of his own."""
        process = self._any_process()
        if process is None:
            return
        self.count += 1
        name = self.random.choice(["", "ray-0", "ray-1", "ray-2", "ray-3", "ray-4", "ray-5"])
        given = self.random.randrange(4) if self.random.random() < 0.1 else None
        ray = Ray(self.random.choice(self.shards), f"uid-{self.count}", name, self.now, given)
        self.rays.append(ray)
        self._start(process, self._admit_ray(process, ray))

    async def _admit_ray(self, process: Process, ray: Ray) -> None:
        wanted = WantedIndex(ray.key, ray.name, ray.given)
        try:
            answer = await process.indices.claim(wanted, process.clock())
        except (NotNow, Denied):
            answer = Holder("nobody")
        late = self.now > ray.began + WEBHOOK_SECONDS
        if not isinstance(answer, int) or not process.alive or late:
            ray.over = True
        else:
            ray.index = answer

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
        self.indexed += 1
        self.server.tell_ray(ray)

    def change_ray(self) -> None:
        """A RayCluster changes, or is gone."""
        stored = list(self.server.rays.values())
        if stored:
            self.server.tell_ray(self.random.choice(stored), gone=self.random.random() < 0.6)

    def request(self) -> None:
        """Requests are carried out, or answered, or both."""
        for request in self.random.sample(self.requests, min(2, len(self.requests))):
            self._advance(request)

    def _advance(self, request: Request) -> None:
        chance = self.random.random()
        if not request.done:
            request.done = True
            try:
                request.result = request.carry_out()
            except ApiError as error:
                request.result = error
            if chance < 0.3:
                return
        if request.process.paused:
            return
        self.requests.remove(request)
        self._answer(
            request,
            ApiError("disconnected", "the answer was lost") if chance > 0.97 else request.result,
        )

    def pods_told(self) -> None:
        """A watch of pods tells some of what happened, or all."""
        process = self._any_process()
        if process is not None:
            process.watch_pods(self.random.choice([1, 1, 3, 1 << 30]))

    def rays_told(self) -> None:
        """A watch of RayClusters tells some of what happened, or all."""
        process = self._any_process()
        if process is not None:
            process.watch_rays(self.random.choice([1, 3, 1 << 30]))

    def leases_told(self) -> None:
        """A watch of Leases tells some of what happened, or all."""
        process = self._any_process()
        if process is not None:
            process.watch_leases(self.random.choice([1, 3, 1 << 30]))

    def listed(self) -> None:
        """A process lists again."""
        process = self._any_process()
        if process is not None:
            self.random.choice([process.list_pods, process.list_rays, process.list_leases])()

    def time(self) -> None:
        """Time passes, mostly little; what has waited too long gives up."""
        self.now += self.random.choices(
            [0.002, 0.02, 0.1, 0.5, 2.5, 6.0, 35.0, 61.0], [30, 30, 20, 12, 4, 4, 2, 2]
        )[0]
        self._give_up()

    def crash(self) -> None:
        """A process is killed, and another one started; what it had sent is underway still."""
        self.restart(self.random.randrange(len(self.processes)))

    def restart(self, place: int) -> None:
        """A process is killed, and another one started in its place."""
        process = self.processes[place]
        process.alive = False
        for task in process.tasks:
            task.cancel()
        self.processes[place] = Process(self, self.born)
        self.born += 1

    def restore(self) -> None:
        """A backup is made, or etcd is restored from it.

        What is underway ends with the API servers, and the webhooks are restarted too, as
        Kubernetes asks.
        """
        if self.kept is None or self.random.random() < 0.5:
            self.kept = self.server.backup()
            return
        self.restored += 1
        self.server.restore(self.kept)
        for pod in self.pods:
            pod.over = True
        for ray in self.rays:
            ray.over = True
        self.requests.clear()
        for place in range(len(self.processes)):
            self.restart(place)

    def pause(self) -> None:
        """A process stops, or goes on."""
        process = self.random.choice(self.processes)
        process.paused = not process.paused

    def gate(self) -> None:
        """KubeRay is restarted with its gate switched, when nothing is underway in the group.

        That takes 10 s. A watch that speaks meanwhile tells all; one that is silent may stay so.
        """
        key = self.random.choice(list(self.groups))
        if any(pod.key == key and pod.underway for pod in self.pods):
            return
        self.labelled[key] = not self.labelled[key]
        self.now += 10.0
        self._give_up()
        for process in self.processes:
            if not process.paused and self.random.random() < 0.5:
                process.watch_pods(1 << 30)
            else:
                process.behind = len(self.server.history)

    def lease_deleted(self) -> None:
        """Somebody deletes a Lease."""
        if self.server.leases:
            name = self.random.choice(list(self.server.leases))
            self.server.version += 1
            self.server.lease_history.append(self.server.leases.pop(name).metadata.uid)

    # What must hold

    def check(self) -> None:
        """No two live pods of a group hold one seat, a replica has one name of ours, and no two
        RayClusters of a shard group have one index.

        KubeRay may begin a replica under its own name, with the gate on, where the pod of one that
        we began was refused.
        """
        held: dict[tuple[GroupKey, int, int], Pod] = {}
        called: dict[tuple[GroupKey, int], str] = {}
        for pod in self.server.pods.values():
            seat = pod.seat
            if not pod.live or seat is None:
                continue
            other = held.setdefault((pod.key, seat.replica, seat.host), pod)
            assert other is pod, (
                f"{pod.uid} and {other.uid} both hold {seat} of {pod.key.group} at {self.now}"
            )
            if pod.claimed and not seat.name.startswith(KUBERAY):
                name = called.setdefault((pod.key, seat.replica), seat.name)
                assert name == seat.name, (
                    f"replica {seat.replica} of {pod.key.group} is called {name} and {seat.name}"
                )
        owners: dict[tuple[ShardKey, int | None], Ray] = {}
        for ray in self.server.rays.values():
            owner = owners.setdefault((ray.key, ray.index), ray)
            assert owner is ray, (
                f"{ray.name} and {owner.name} both have index {ray.index} of {ray.key.group} at "
                f"{self.now}"
            )
        assert not self._errors, self._errors

    # How it goes on

    def _any_process(self) -> Process | None:
        awake = [process for process in self.processes if not process.paused]
        return self.random.choice(awake) if awake else None

    def _free_seat(self, key: GroupKey) -> Seat:
        taken = {
            (pod.seat.replica, pod.seat.host)
            for pod in self.server.pods.values()
            if pod.key == key and pod.live and pod.seat
        }
        hosts, place = self.groups[key], 0
        while divmod(place, hosts) in taken:
            place += 1
        replica, host = divmod(place, hosts)
        others = (
            p.seat.name
            for p in self.server.pods.values()
            if p.key == key and p.live and p.seat and p.seat.replica == replica
        )
        return Seat(replica, host, "" if hosts == 1 else next(others, f"{KUBERAY}{self.count}"))

    def _start(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        process.tasks = [task for task in process.tasks if not task.done()]
        process.tasks.append(self.loop.create_task(work))

    def _give_up(self) -> None:
        for pod in self.pods:
            if pod.underway and self.now > pod.began + ADMISSION_SECONDS:
                pod.over = True
        for ray in self.rays:
            if ray.underway and self.now > ray.began + ADMISSION_SECONDS:
                ray.over = True
        self.pods = [pod for pod in self.pods if pod.underway]
        self.rays = [ray for ray in self.rays if ray.underway]
        for request in [request for request in self.requests if request.deadline <= self.now]:
            if not request.process.paused and not request.answer.done():
                self._answer(request, ApiError("timeout", "no answer in time"))
            if request.since + 60.0 <= self.now:
                self.requests.remove(request)

    # Whatever was asked for
    def _answer(self, request: Request, result: Any) -> None:  # noqa: ANN401
        if request.answer.done() or not request.process.alive:
            return
        if isinstance(result, ApiError):
            request.answer.set_exception(result)
        else:
            request.answer.set_result(result)

    def _settle(self) -> None:
        self.loop.run_until_complete(self._turns())

    async def _turns(self) -> None:
        for _ in range(TURNS):
            for process in self.processes:
                if process.sleepers and not process.paused:
                    process.wake()
            await asyncio.sleep(0)


_CHANCES: list[tuple[Callable[[Model], None], float]] = [
    (Model.create, 40),
    (Model.store, 40),
    (Model.change, 10),
    (Model.request, 90),
    (Model.pods_told, 20),
    (Model.leases_told, 20),
    (Model.listed, 2),
    (Model.time, 15),
    (Model.crash, 0.5),
    (Model.pause, 1),
    (Model.gate, 1),
    (Model.lease_deleted, 0.05),
    (Model.create_ray, 8),
    (Model.store_ray, 8),
    (Model.change_ray, 4),
    (Model.rays_told, 10),
    (Model.restore, 0.1),
]
_HAPPENINGS = [happening for happening, _ in _CHANCES]
_WEIGHTS = [weight for _, weight in _CHANCES]


def _pod(pod: Pod, version: int) -> bytes:
    seat = pod.seat
    assert seat is not None
    labels = {
        names.LABEL_CLUSTER: "ray",
        names.LABEL_GROUP: pod.key.group,
        names.LABEL_REPLICA_INDEX: str(seat.replica),
    }
    if seat.name:
        labels |= {names.LABEL_REPLICA_NAME: seat.name, names.LABEL_HOST_INDEX: str(seat.host)}
    meta: dict[str, Any] = {
        "uid": pod.uid,
        "namespace": pod.key.namespace,
        "resourceVersion": str(version),
        "labels": labels,
    }
    meta["ownerReferences"] = [{"name": "ray", "uid": pod.key.cluster_uid, "controller": True}]
    if pod.terminating:
        meta["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    return msgspec.json.encode({"metadata": meta})


def _ray(ray: Ray, version: int) -> bytes:
    meta = {
        "uid": ray.uid,
        "name": ray.name,
        "namespace": ray.key.namespace,
        "resourceVersion": str(version),
        "annotations": {
            names.ANNOTATION_SHARD_GROUP: ray.key.group,
            names.ANNOTATION_SHARD_INDEX: str(ray.index),
        },
    }
    return msgspec.json.encode({"metadata": meta})


def _seats(key: Key) -> GroupKey:
    assert isinstance(key, GroupKey)
    return key


def _indices(key: Key) -> ShardKey:
    assert isinstance(key, ShardKey)
    return key


_decoder = msgspec.json.Decoder(WorkerPod)
_ray_decoder = msgspec.json.Decoder(LiveRayCluster)


def _decoded_ray(body: bytes) -> LiveRayCluster:
    return _ray_decoder.decode(body)


def _decoded(body: bytes) -> WorkerPod:
    return _decoder.decode(body)
