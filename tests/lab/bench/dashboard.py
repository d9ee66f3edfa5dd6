"""`status`, the dashboard and the controller with 1,000 RayClusters of 100 pods: time to the first
RayCluster, memory, latency of answers, and CPU use at rest and while pods change.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import httpx

from tests.e2e.process import free_port
from tests.e2e.waiting import until
from tests.harness.fake_api import PODS, FakeApi, Object
from tests.harness.fleet import Fleet
from tests.harness.served import kubeconfig
from tests.lab.bench.reviews_over_https import cpu_seconds
from tests.lab.hostile.beside import memory

CLUSTERS: Final = int(os.environ.get("CLUSTERS", "1000"))
REPLICAS: Final = 25
PAGE_ITEMS: Final = 500
"""Objects of one page of a list, as of a real API server."""
CHANGES: Final = 100
"""Changes a second."""
SECONDS: Final = 30
SECONDS_MAX: Final = 600
"""How long the first examination may take."""


def main() -> None:
    """Measure and print; with the argument `serve`, be the API server."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
        return
    command = [sys.executable, "-m", "tests.lab.bench.dashboard", "serve"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdin
        assert server.stdout
        port, stream = int(server.stdout.readline()), server.stdin
        print(f"\n{CLUSTERS} RayClusters of {REPLICAS * 4} worker pods")
        with tempfile.TemporaryDirectory() as folder:
            config = kubeconfig(Path(folder), port)
            _status(config)
            for measure in (_dashboard, _controller):
                measure(config, lambda: print("change", file=stream, flush=True))
    finally:
        server.kill()
        server.wait()


async def _serve() -> None:
    fleet, api = Fleet(CLUSTERS, REPLICAS), FakeApi(pieces=1)
    api.page_limit = PAGE_ITEMS
    for resource, objects in fleet.resources.items():
        api.load(resource, objects)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with api.serving():
        print(api.port, flush=True)
        while await reader.readline():
            for number in range(SECONDS * CHANGES):
                replica = fleet.replicas[number * 37 % len(fleet.replicas)]
                api.put(PODS, _changed(replica[number % len(replica)], number))
                await asyncio.sleep(1 / CHANGES)


def _changed(pod: Object, number: int) -> Object:
    ready = {"type": "Ready", "status": "True" if number // 4000 % 2 else "False"}
    return {**pod, "status": {"phase": "Running", "conditions": [ready]}}


def _status(config: Path) -> None:
    begun = monotonic()
    command = ["status", "-A", "--kubeconfig", str(config)]
    with _running(command, stdout=subprocess.DEVNULL) as process:
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        print(f"  status      {monotonic() - begun:6.1f} s  {used.ru_maxrss >> 10} MiB")


def _dashboard(config: Path, change: Callable[[], None]) -> None:
    begun = monotonic()
    command = ["dashboard", "-A", "--port", "0", "--kubeconfig", str(config)]
    with (
        _running(command, stderr=subprocess.PIPE) as process,
        httpx.Client(follow_redirects=True, timeout=600) as client,
    ):
        assert process.stderr
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line
        page = client.get(address[0])
        until(lambda: "<section" in client.get(page.url).text, "the first RayCluster", SECONDS_MAX)
        first = monotonic() - begun
        delays: list[float] = []

        def is_whole() -> bool:
            asked = monotonic()
            client.get(page.url.join("/enter"))
            delays.append(monotonic() - asked)
            return not len(delays) % 20 and f"{CLUSTERS} RayClusters" in client.get(page.url).text

        until(is_whole, "all RayClusters", SECONDS_MAX)
        whole = monotonic() - begun
        size = len(client.get(page.url).content)
        wire = int(client.get(page.url).headers["content-length"])
        delays.sort()
        slow = delays[int(len(delays) * 0.99)]
        threading.Thread(target=_follow, args=(address[0],), daemon=True).start()
        shares = _shares(process.pid, change)
    print(f"  dashboard   {first:6.1f} s to the first RayCluster, {whole:.1f} s to all")
    print(f"              the page: {size >> 10} KiB, {wire >> 10} KiB compressed")
    print(f"              other answers: p99 {slow * 1e3:.0f} ms, {delays[-1] * 1e3:.0f} at most")
    print(f"              {shares}")


def _controller(config: Path, change: Callable[[], None]) -> None:
    port = free_port()
    command = ["controller", f"--kubeconfig={config}", "--installation.namespace=team"]
    command += ["--listen.host=127.0.0.1", f"--listen.admin-port={port}"]
    with (
        _running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        begun = monotonic()

        def is_whole() -> bool:
            try:
                return client.get("/metrics").text.count("ray_webhook_replicas{") >= CLUSTERS
            except httpx.TransportError:
                return False

        until(is_whole, "all RayClusters", SECONDS_MAX)
        whole = monotonic() - begun
        shares = _shares(process.pid, change)
    print(f"  controller  {whole:6.1f} s to all; {shares}")


@contextmanager
def _running(arguments: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:  # noqa: ANN401 - as Popen takes them
    command = [sys.executable, "-m", "webhook.cli.main", *arguments]
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.communicate()


def _follow(address: str) -> None:
    """Be a page: take in all that comes, until the dashboard ends."""
    with httpx.Client(follow_redirects=True, timeout=3600) as client, suppress(httpx.HTTPError):
        found = re.search(r'hx-sse:connect="([^"]+)"', client.get(address).text)
        assert found
        url = httpx.URL(address).join(found[1].replace("&amp;", "&"))
        with client.stream("GET", url) as stream:
            for _ in stream.iter_bytes():
                pass


def _shares(pid: int, change: Callable[[], None]) -> str:
    """Return the memory of a process, and the share of a core it takes at rest and with changes."""
    peak, now = memory(pid)
    sleep(10)
    quiet = _share(pid)
    change()
    return (
        f"{now:.0f} MiB, at most {peak:.0f}; at rest {quiet:.1%} of a core, "
        f"{CHANGES} changes a second: {_share(pid):.1%}"
    )


def _share(pid: int) -> float:
    begun, used = monotonic(), cpu_seconds(pid)
    sleep(SECONDS)
    return (cpu_seconds(pid) - used) / (monotonic() - begun)


if __name__ == "__main__":
    main()
