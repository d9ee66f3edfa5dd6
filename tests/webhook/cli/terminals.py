"""Terminals: a console of a given size, and a program in a pseudo-terminal."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from tests import ROOT

PROGRAM = (sys.executable, "-m", "webhook.cli.main")


def a_console(width: int, height: int = 25) -> tuple[Console, io.StringIO]:
    """Return a console of a size, which believes in its terminal, and what is written to it."""
    written = io.StringIO()
    console = Console(file=written, width=width, height=height, force_terminal=True, _environ={})
    return console, written


class Seen:
    """The rows of a terminal to which something is written, by the few controls that are used."""

    def __init__(self, width: int, height: int) -> None:
        self.rows: list[str] = [""]
        self._row = 0
        self._width, self._height = width, height

    def write(self, text: str) -> None:
        for control, count, what, character in _WRITTEN.findall(text):
            if what == "A":  # up, but not beyond what is on the screen
                self._row = max(self._row - int(count or 1), len(self.rows) - self._height, 0)
            elif what == "K":
                self.rows[self._row] = ""
            elif character == "\n":
                self._down()
            elif character and character != "\r":
                if len(self.rows[self._row]) == self._width:
                    self._down()
                self.rows[self._row] += character
            else:
                assert character or what in "mhl", control

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")


_WRITTEN = re.compile(r"(\x1b\[\??([0-9;]*)([A-Za-z]))|([^\x1b])", re.DOTALL)


class Terminal:
    """A program in a pseudo-terminal, and all that it wrote so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", leader: int) -> None:
        self.process = process
        self.text = ""
        self._leader = leader
        self._bytes = b""

    def read_until(self, text: str) -> None:
        """Read until a text was written. Raises OSError when the program ends before."""
        while text not in self.text:
            self._bytes += os.read(self._leader, 65536)
            self.text = self._bytes.decode(errors="ignore")


@contextmanager
def terminal(*arguments: str, width: int, height: int) -> Iterator[Terminal]:
    """Run a command of ours in a terminal of a size; it is killed in the end."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment = kept | {"TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        cwd=ROOT,
    ) as process:
        os.close(follower)
        try:
            yield Terminal(process, leader)
        finally:
            process.kill()
            os.close(leader)
