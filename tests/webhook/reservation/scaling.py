"""A simulated KubeRay that creates pods without identities, one at a time, until all replicas have
their hosts; scales whole replicas up and down; and loses pods elsewhere.
"""

from tests.webhook.reservation.server import Pod
from tests.webhook.reservation.simulated import Model
from webhook.groups.identity import GroupKey

ROUNDS = 400
"""Rounds at the end of a story until all replicas must be complete."""


class ScalingModel(Model):
    """A model in which all pods are those of desired replicas, and no one edits objects."""

    def __init__(self, seed: int, processes: int, replicas: int) -> None:
        super().__init__(seed, processes)
        self.replicas = {}
        for key in self.groups:
            self.groups[key] = self.random.choice([2, 2, 4])
            self.replicas[key] = replicas + self.random.randrange(3)
        self.end()

    def desired(self, key: GroupKey) -> int:
        return self.replicas[key]

    def _members(self, key: GroupKey) -> dict[int, list[Pod]]:
        """Return the stored pods of a group by replica index."""
        members: dict[int, list[Pod]] = {}
        for pod in self.server.pods.values():
            if pod.key == key and pod.identity:
                members.setdefault(pod.identity.replica, []).append(pod)
        return members

    def _creates(self, key: GroupKey) -> bool:
        return any(pod.key == key and pod.underway for pod in self.pods)

    def reconcile(self) -> None:
        """KubeRay creates a pod of a group that has too few, unless a creation is in progress."""
        self._reconcile(self.random.choice(list(self.groups)))

    def _reconcile(self, key: GroupKey) -> None:
        process = self._any_process()
        pods = sum(map(len, self._members(key).values()))
        if process is None or self._creates(key) or pods >= self.replicas[key] * self.groups[key]:
            return
        self.count += 1
        pod = Pod(key=key, uid=f"pod-{self.count}", began=self.now, claimed=True)
        self.pods.append(pod)
        process.start(self._admit(process, pod))

    def scale_down(self) -> None:
        """KubeRay deletes all pods of a replica."""
        key = self.random.choice(list(self.groups))
        members = self._members(key)
        if self._creates(key) or len(members) < 2:
            return
        self.replicas[key] -= 1
        for pod in members[self.random.choice(sorted(members))]:
            self._delete(pod)

    def scale_up(self) -> None:
        self.replicas[self.random.choice(list(self.groups))] += 1

    def lose(self) -> None:
        if self.server.pods:
            self._delete(self.random.choice(list(self.server.pods.values())))

    def _delete(self, pod: Pod) -> None:
        pod.gone = True
        self.server.put(self.server.pods, pod, gone=True)

    def store(self) -> None:
        """Store a pod. One that opens a replica must be one of those that are desired."""
        before = {key: set(self._members(key)) for key in self.groups}
        super().store()
        for key, indices in before.items():
            now = set(self._members(key))
            assert now == indices or len(now) <= self.replicas[key], (
                f"{now - indices} of {key.group} was opened beside {len(indices)} replicas, of "
                f"which {self._incomplete(key)} are incomplete; {self.replicas[key]} are desired"
            )

    def _incomplete(self, key: GroupKey) -> list[int]:
        return [i for i, pods in self._members(key).items() if len(pods) < self.groups[key]]

    def end(self) -> None:
        """Let all that waits end, and KubeRay create what is missing."""
        for _ in range(ROUNDS):
            if not any(map(self._lacks, self.groups)):
                break
            self._calm()
        lacking = {key.group: self._incomplete(key) for key in self.groups if self._lacks(key)}
        assert not lacking, f"replicas stay incomplete: {lacking}"

    def _lacks(self, key: GroupKey) -> bool:
        members = self._members(key)
        return len(members) != self.replicas[key] or bool(self._incomplete(key))

    def _calm(self) -> None:
        """Play a round in which nothing goes wrong."""
        for process in self.processes:
            if process.paused:
                process.pause(clock=False)
        self.answer_all()
        for process in self.processes:
            process.pods.receive(1 << 30)
            process.rays.receive(1 << 30)
        for key in self.groups:
            self._reconcile(key)
        self.answer_all()
        for pod in self.pods:
            if pod.underway and pod.identity is not None:
                pod.stored = True
                self.server.put(self.server.pods, pod)
        self.now += self.random.choice([0.5, 0.5, 5.0])
        self.give_up()
        self.settle()
        self.check()


ScalingModel.chances = [
    (ScalingModel.reconcile, 40),
    (ScalingModel.scale_down, 4),
    (ScalingModel.scale_up, 2),
    (ScalingModel.lose, 6),
    (ScalingModel.store, 40),
    *(
        (step, weight)
        for step, weight in Model.chances
        if step
        in {
            Model.repeat,
            Model.cancel,
            Model.request,
            Model.pods_watched,
            Model.listed,
            Model.swept,
            Model.time,
            Model.crash,
            Model.pause,
        }
    ),
]
