"""A program under test as a child process: its log file, its exit, and its termination by pid."""

import json
import os
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, Self
from urllib.request import ProxyHandler, build_opener

NO_ANSWER: Final = (OSError, HTTPException)
"""What is raised where nothing listens, or an answer is cut off."""

START_SECONDS: Final = 180
"""How long a program may take until it is ready: several times what a busy machine takes."""


class ProgramError(Exception):
    """A program did not start or did not stay up; the message carries the end of its log."""


class Startable(ABC):
    """What runs between entry and exit."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start it."""

    @abstractmethod
    def stop(self) -> None:
        """End it."""


class Program(Startable):
    """A child process that can be started many times; its output is appended to `log`."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Starts it in its own session, so that Ctrl-C reaches only the tests."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=self._environment, start_new_session=True,
            )  # fmt: skip

    def stop(self, grace: float = 30) -> None:
        """Ends the process politely, and after `grace` seconds for good."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Ends the process at once, as the kernel does when memory is short."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait_until(self, ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Polls `ready`. Raises ProgramError when the process ends first or the time is over."""
        deadline = monotonic() + seconds
        while not ready():
            if self.pid is None:
                raise ProgramError(f"{self.name} ended before it was ready\n{self.tail()}")
            if monotonic() > deadline:
                raise ProgramError(f"{self.name} was not ready after {seconds:g} s\n{self.tail()}")
            sleep(0.05)

    def tail(self, lines: int = 30) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- {self.log} ---\n" + "\n".join(
            line[:400] for line in text.splitlines()[-lines:]
        )


class Peer(Startable):
    """A program that the webhook meets: it runs, and is ready, between entry and exit."""

    def __init__(self, program: Program, ready: Callable[[], bool]) -> None:
        self._program = program
        self._ready = ready

    def start(self) -> None:
        self._program.start()
        try:
            self._program.wait_until(self._ready)
        except BaseException:
            self._program.stop()
            raise

    def stop(self) -> None:
        self._program.stop()

    def tail(self, lines: int = 30) -> str:
        return self._program.tail(lines)


def free_port() -> int:
    """A loopback port that is given to no one else while this process lives.

    A socket stays bound to it that never listens: the kernel leaves the port out when it looks for
    a free one, and a program that names it may listen, as listeners reuse addresses.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    held.detach()
    return port


def lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").split("\n")[:-1]


def records(log: Path) -> list[dict[str, Any]]:
    """What stands in a log in JSON, a line each; other lines, such as a traceback, are left out."""
    return [json.loads(line) for line in lines(log) if line.startswith("{") and line.endswith("}")]


def accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def get(port: int, path: str, seconds: float = 30, host: str = "127.0.0.1") -> str:
    opener = build_opener(ProxyHandler({}))
    with opener.open(f"http://{host}:{port}{path}", timeout=seconds) as answer:
        text: str = answer.read().decode()
        return text


def metric_of(port: int, name: str) -> float:
    lines = get(port, "/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def says_ready(port: int, host: str = "127.0.0.1") -> bool:
    try:
        return bool(get(port, "/readyz", 5, host))
    except NO_ANSWER:
        return False


class Replica(Peer):
    """A process of ours, with probes and metrics; it is started again on the ports it had."""

    def __init__(self, program: Program, admin_port: int) -> None:
        super().__init__(program, lambda: self.ready)
        self._admin_port = admin_port

    @property
    def log(self) -> Path:
        return self._program.log

    @property
    def admin_address(self) -> str:
        return f"127.0.0.1:{self._admin_port}"

    @property
    def ready(self) -> bool:
        return says_ready(self._admin_port)

    def kill(self) -> None:
        self._program.kill()

    def metric(self, name: str) -> float:
        return metric_of(self._admin_port, name)
