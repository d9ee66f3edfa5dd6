"""Several webhook processes behind a balancer, installed as one webhook."""

import os
import signal
from functools import partial
from time import sleep

from tests.e2e.balancer import Balancer
from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Program, free_port, metric_of, says_ready
from tests.e2e.webhook_process import Webhook


class Fleet(Webhook):
    """`count` processes behind a balancer, which forgets a dead one after `lag` seconds."""

    def __init__(self, plane: ControlPlane, count: int, lag: float) -> None:
        super().__init__(plane)
        self.ports = [(free_port(), free_port()) for _ in range(count)]
        self.members: list[Program] = [self._process(port, admin) for port, admin in self.ports]
        self._balancer = Balancer(
            self._port, [(port, partial(says_ready, admin)) for port, admin in self.ports], lag
        )

    @property
    def ready(self) -> bool:
        return all(says_ready(admin) for _, admin in self.ports)

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.members[0].wait_until(lambda: self.ready)
        self._balancer.start()

    def stop(self) -> None:
        self._balancer.stop()
        for member in self.members:
            self.signal(member, signal.SIGCONT)
            member.stop()

    def restart(self, number: int, *, at_once: bool) -> None:
        member, (_, admin) = self.members[number], self.ports[number]
        self.signal(member, signal.SIGCONT)
        member.kill() if at_once else member.stop()
        member.start()
        member.wait_until(lambda: says_ready(admin))

    def pause(self, number: int, seconds: float) -> None:
        """Stop one, as a node that hangs does, and let it go on."""
        self.signal(self.members[number], signal.SIGSTOP)
        sleep(seconds)
        self.signal(self.members[number], signal.SIGCONT)

    def total(self, name: str) -> float:
        return sum(metric_of(admin, name) for _, admin in self.ports)

    @staticmethod
    def signal(program: Program, what: signal.Signals) -> None:
        if program.pid is not None:
            os.kill(program.pid, what)
