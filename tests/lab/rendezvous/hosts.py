"""Hosts of a separate network: each with an address, a name, and names for the others, as pods have
them by a headless service. To be used within `unshare`, and removed with it. `python -m
tests.lab.rendezvous.hosts` exits with 2 if they cannot be created.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

UNSHARE: Final = (
    "unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child",
)  # fmt: skip
"""Begins the command that may make hosts; when it ends, so does everything that runs on them."""

_BRIDGE: Final = "cluster"
_ENTER: Final = """
hostname "$1" && mount --bind "$2" /etc/hosts && mount -t tmpfs tmpfs "$3" \
  && mount -t tmpfs tmpfs /dev/shm && shift 3 && exec "$@"
"""


def main() -> int:
    """Return 0 when hosts can be made on this machine, 2 when they cannot."""
    tried = (
        "mount -t tmpfs tmpfs /run && ip link add name bridge-0 type bridge"
        " && ip netns add host-0 && ip link add name wire-0 type veth peer name eth0 netns host-0"
    )
    try:
        done = subprocess.run(
            [*UNSHARE, "sh", "-c", tried], capture_output=True, text=True, check=False
        )
        why = (done.stderr or "unshare failed") if done.returncode else ""
    except FileNotFoundError as error:
        why = str(error)
    if why:
        print(f"no hosts can be made here, which takes root, unshare and iproute2: {why.strip()}")
    return 2 if why else 0


def run_isolated(module: str, *arguments: str, seconds: float) -> str:
    """Run a module in a network of its own; return its output. Its last argument is the folder for
    `Hosts`, whose path is short, as those of sockets have to be. Raises CalledProcessError.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    command = [*UNSHARE, sys.executable, "-m", module, *arguments, str(folder)]
    try:
        return subprocess.check_output(command, timeout=seconds, text=True)
    finally:
        for file in folder.parent.glob(f"{folder.name}.*"):
            file.unlink()
        folder.rmdir()


class Hosts:
    """A network and its hosts. `folder` is a path at which each host has files of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = folder.with_suffix(".hosts")
        self._names.write_text("127.0.0.1 localhost\n")
        _do("mount", "-t", "tmpfs", "tmpfs", "/run")
        _do("ip", "link", "add", "name", _BRIDGE, "type", "bridge")
        _do("ip", "link", "set", _BRIDGE, "up")
        self._addresses: dict[str, str] = {}

    def add(self, name: str, others: Sequence[str]) -> str:
        """Add a host, which others know by these names too; return its address."""
        number = len(self._addresses) + 1
        address = self._addresses[name] = f"10.77.0.{number}"
        wire = f"wire-{number}"
        _do("ip", "netns", "add", name)
        _do(
            "ip", "link", "add", "name", wire, "type", "veth", "peer", "name", "eth0", "netns", name
        )
        _do("ip", "link", "set", wire, "master", _BRIDGE, "up")
        _do("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _do("ip", "-n", name, "link", "set", device, "up")
        with self._names.open("a") as names:
            names.write(f"{address} {' '.join([*others, name])}\n")
        return address

    def run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Begin a command on a host. What it says goes to a file that `said` reads."""
        enter = ["ip", "netns", "exec", name, "unshare", "--mount", "--uts", "sh", "-c", _ENTER]
        with self._log(name).open("w") as log:
            return subprocess.Popen(
                [*enter, "sh", name, str(self._names), str(self._folder), *command],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def said(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")

    def _log(self, name: str) -> Path:
        return self._folder.with_suffix(f".{name}.log")


def _do(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
