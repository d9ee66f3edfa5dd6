"""A program under test as a child process: its log file, the end of it, and its end by pid."""

import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self


class ProgramError(Exception):
    """A program did not start or did not stay up; the message carries the end of its log."""


class Program:
    """One child process that can be started and stopped many times; its output is appended to `log`."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Starts the process in a session of its own, so that Ctrl-C in a terminal reaches only the tests."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def stop(self, grace: float = 10) -> None:
        """Ends the process: politely, and after `grace` seconds for good. Does nothing when it has ended already."""
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
        """Ends the process at once, as the kernel does when memory is short: it has no say in it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Polls `ready`. Raises ProgramError when the process ends first or the time is over."""
        deadline = monotonic() + seconds
        while not ready():
            if self.pid is None:
                raise ProgramError(f"{self.name} ended before it was ready\n{self.tail()}")
            if monotonic() > deadline:
                raise ProgramError(f"{self.name} was not ready after {seconds:g} s\n{self.tail()}")
            sleep(0.05)

    def tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- {self.log} ---\n" + "\n".join(line[:400] for line in text.splitlines()[-lines:])


def free_port() -> int:
    """A loopback port that nothing listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def accepts_connections(port: int) -> bool:
    """Whether something listens on the loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
