"""The dashboard: the share of a core that its process takes while pods of 1,000 replicas change."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import httpx

from tests.dashboard.fleet import Fleet
from tests.follow.fake_api import NAMESPACES, NODES, PODS, RAYCLUSTERS, SERVICES, FakeApi, Object
from tests.status.served import kubeconfig

CLUSTERS: Final = 20
REPLICAS: Final = 50
CHANGES: Final = 50
"""Changes a second."""
SECONDS: Final = 60
WARM_SECONDS: Final = 20


def main() -> None:
    """Measure and print; with the argument `serve`, be the API server."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
        return
    command = [sys.executable, "-m", "tests.bench.dashboard", "serve"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdin
        assert server.stdout
        port = int(server.stdout.readline())
        stream = server.stdin
        with tempfile.TemporaryDirectory() as folder:
            _measure(
                kubeconfig(Path(folder), port), lambda: print("change", file=stream, flush=True)
            )
    finally:
        server.kill()
        server.wait()


async def _serve() -> None:
    """Serve a fleet; for each line that comes in, change pods for some seconds."""
    fleet, api = Fleet(CLUSTERS, REPLICAS), FakeApi(pieces=1)
    for resource, objects in (
        (RAYCLUSTERS, fleet.clusters),
        (PODS, list(fleet.pods)),
        (SERVICES, fleet.services),
        (NODES, fleet.nodes),
        (NAMESPACES, [{"metadata": {"name": "team", "uid": "team"}}]),
    ):
        api.load(resource, objects)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with api.serving():
        sys.stdout.write(f"{api.port}\n")
        sys.stdout.flush()
        while await reader.readline():
            for number in range(SECONDS * CHANGES):
                replica = fleet.replicas[number * 37 % len(fleet.replicas)]
                api.put(PODS, _changed(replica[number % len(replica)], number))
                await asyncio.sleep(1 / CHANGES)


def _changed(pod: Object, number: int) -> Object:
    """Return a pod that is ready, or is not."""
    ready = {"type": "Ready", "status": "True" if number // 4000 % 2 else "False"}
    return {**pod, "status": {"phase": "Running", "conditions": [ready]}}


def _measure(config: Path, change: Callable[[], None]) -> None:
    command = [sys.executable, "-m", "webhook.cli.main", "dashboard", "-A", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(config)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr
        address = re.search(r"http://\S+", process.stderr.readline())
        assert address
        page = threading.Thread(target=_follow, args=(address[0],), daemon=True)
        page.start()
        sleep(WARM_SECONDS)
        quiet = _share(process.pid)
        change()
        busy = _share(process.pid)
    finally:
        process.terminate()
        process.communicate()
    what = f"{CLUSTERS * REPLICAS} replicas of 4 hosts in {CLUSTERS} RayClusters, one page open"
    print(f"dashboard: {what}")
    print(f"  nothing changes:      {quiet:6.1%} of a core")
    print(f"  {CHANGES} changes a second:  {busy:6.1%} of a core")


def _follow(address: str) -> None:
    """Be a page: take in all that comes, until the dashboard ends."""
    with httpx.Client(follow_redirects=True, timeout=3600) as client:
        html = client.get(address).text
        found = re.search(r'hx-sse:connect="([^"]+)"', html)
        assert found
        url = str(httpx.URL(address).join(found[1].replace("&amp;", "&")))
        try:
            with client.stream("GET", url) as stream:
                for _ in stream.iter_bytes():
                    pass
        except httpx.HTTPError:
            return


def _share(pid: int) -> float:
    """Return the share of a core that a process takes, over some seconds."""
    begun, used = monotonic(), _cpu(pid)
    sleep(SECONDS)
    return (_cpu(pid) - used) / (monotonic() - begun)


def _cpu(pid: int) -> float:
    """Return the seconds of a core that a process took."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
