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
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import httpx

from tests.e2e.process import free_port
from tests.harness.fake_api import PODS, FakeApi, Object
from tests.harness.fleet import Fleet
from tests.harness.served import kubeconfig

CLUSTERS: Final = int(os.environ.get("CLUSTERS", "1000"))
REPLICAS: Final = 25
PAGE_ITEMS: Final = 500
"""Objects of one page of a list, as of a real API server."""
CHANGES: Final = 100
"""Changes a second."""
SECONDS: Final = 30
WARM_SECONDS: Final = 600
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
            _dashboard(config, lambda: print("change", file=stream, flush=True))
            _controller(config, lambda: print("change", file=stream, flush=True))
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
        sys.stdout.write(f"{api.port}\n")
        sys.stdout.flush()
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
        took = monotonic() - begun
        print(f"  status      {took:6.1f} s  {used.ru_maxrss >> 10} MiB")


def _dashboard(config: Path, change: Callable[[], None]) -> None:
    begun = monotonic()
    command = ["dashboard", "-A", "--port", "0", "--kubeconfig", str(config)]
    with _running(command, stderr=subprocess.PIPE) as process:
        assert process.stderr
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line
        with httpx.Client(follow_redirects=True, timeout=600) as client:
            page = _until(lambda: client.get(address[0]), lambda each: "<section" in each.text)
            first = monotonic() - begun
            every = f"{CLUSTERS} RayClusters"
            delays: list[float] = []

            def poll() -> httpx.Response:
                asked = monotonic()
                answer = client.get(page.url.join("/enter"))
                delays.append(monotonic() - asked)
                return answer if len(delays) % 20 else client.get(page.url.join("/"))

            page = _until(poll, lambda each: every in each.text)
            whole = monotonic() - begun
            plain = len(page.content)
            wire = int(client.get(page.url).headers["content-length"])
            delays.sort()
            slow = delays[int(len(delays) * 0.99)]
            held = _held(process.pid)
            threading.Thread(target=_follow, args=(address[0],), daemon=True).start()
            sleep(10)
            quiet = _share(process.pid)
            change()
            busy = _share(process.pid)
    print(f"  dashboard   {first:6.1f} s to the first RayCluster, {whole:.1f} s to all")
    print(f"              {held}; the page: {plain >> 10} KiB, {wire >> 10} KiB compressed")
    print(f"              other answers: p99 {slow * 1e3:.0f} ms, {delays[-1] * 1e3:.0f} at most")
    print(f"              at rest {quiet:.1%} of a core, {CHANGES} changes a second: {busy:.1%}")


def _controller(config: Path, change: Callable[[], None]) -> None:
    port = free_port()
    command = ["controller", f"--kubeconfig={config}", "--installation.namespace=team"]
    with (
        _running(
            [*command, "--listen.host=127.0.0.1", f"--listen.admin-port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        begun = monotonic()

        def metrics() -> httpx.Response:
            try:
                return client.get("/metrics")
            except httpx.TransportError:
                return httpx.Response(503)

        _until(metrics, lambda each: each.text.count("ray_webhook_replicas{") >= CLUSTERS)
        whole, held = monotonic() - begun, _held(process.pid)
        sleep(10)
        quiet = _share(process.pid)
        change()
        busy = _share(process.pid)
    print(f"  controller  {whole:6.1f} s to all; {held}")
    print(f"              at rest {quiet:.1%} of a core, {CHANGES} changes a second: {busy:.1%}")


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


def _until(
    get: Callable[[], httpx.Response], enough: Callable[[httpx.Response], bool]
) -> httpx.Response:
    end = monotonic() + WARM_SECONDS
    while not enough(answer := get()):
        assert monotonic() < end, answer.text[:2000]
        sleep(0.05)
    return answer


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


def _held(pid: int) -> str:
    """Return the memory of a process: now, and at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (
        int(re.findall(rf"{name}:\s+(\d+)", status)[0]) >> 10 for name in ("VmRSS", "VmHWM")
    )
    return f"{now} MiB, at most {most}"


def _share(pid: int) -> float:
    """Return the share of a core that a process takes, over some seconds."""
    begun, used = monotonic(), _cpu(pid)
    sleep(SECONDS)
    return (_cpu(pid) - used) / (monotonic() - begun)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
