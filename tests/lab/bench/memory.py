"""Memory of a process that watches 100,000 pods of 400 RayClusters, with reservations in Leases and
in memory.

Each RayCluster has requested the next pod, so its Lease contains a reservation. The API server is a
fake in another process.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import uvloop
import yaml

from tests.harness.apiserver import ApiServer, pod_review
from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.objects import a_pod, a_raycluster
from tests.harness.server import PROGRAM, ready
from tests.lab.bench.reviews_over_https import say
from webhook.cli.main import main as command
from webhook.groups.identity import HostIdentity

CLUSTERS = 400
PODS_EACH = 250
HOSTS = 2
READY_SECONDS = 120
SETTLE_SECONDS = 41
"""For as long no one claims in a new Lease."""


def main() -> None:
    """Measure and print; with the argument `serve`, be the API server."""
    if sys.argv[1:] == ["serve"]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve())
        return
    say(f"{CLUSTERS * PODS_EACH} pods of {CLUSTERS} RayClusters; MiB that a process holds:")
    say(f"{'':<10} {'followed':>9} {'and claimed':>12} {'peak':>6}")
    for name, program in (("in memory", ("-m", "tests.e2e.in_memory")), ("Leases", PROGRAM)):
        with tempfile.TemporaryDirectory() as folder, _api() as port:
            followed, claimed, peak = _held(Path(folder), port, program)
        say(f"{name:<10} {followed:>9.1f} {claimed:>12.1f} {peak:>6.1f}")


def _worker(cluster: int, number: int) -> Object:
    replica, host = divmod(number, HOSTS)
    name = f"ray-{cluster}"
    pod = a_pod(f"{name}-{number}", HostIdentity(replica, host, f"tpu-r{replica:04}"), cluster=name)
    pod["metadata"]["uid"] = f"01234567-89ab-cdef-{cluster:04}-{number:012}"
    return pod


async def _serve() -> None:
    api = FakeApi(pieces=1)
    api.load(
        PODS, (_worker(each, number) for each in range(CLUSTERS) for number in range(PODS_EACH))
    )
    wanted = PODS_EACH // HOSTS + 1
    for each in range(CLUSTERS):
        api.put(
            RAYCLUSTERS,
            a_raycluster(f"ray-{each}", numOfHosts=HOSTS, replicas=wanted, maxReplicas=wanted),
        )
    async with api.serving():
        say(f"{api.port}")
        await asyncio.Event().wait()


@contextmanager
def _api() -> Iterator[int]:
    server = [sys.executable, "-m", "tests.lab.bench.memory", "serve"]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _held(folder: Path, port: int, program: Sequence[str]) -> tuple[float, float, float]:
    """Return what is held once all is followed, once each RayCluster has claimed an identity, and
    at most.
    """
    assert command(["certs", "issue", "--dir", str(folder)]) == 0
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(port)))
    serve = [sys.executable, *program, "serve", "--host", "127.0.0.1", "--port", "0"]
    serve += [
        "--admin-port", "0", "--kubeconfig", str(kubeconfig), "--installation.namespace", "default",
    ]  # fmt: skip
    serve += ["--tls.cert-dir", str(folder)]
    with (
        (folder / "log").open("w") as out,
        subprocess.Popen(serve, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            url, admin = ready(process)
            _await_ready(f"{admin}/readyz")
            sleep(SETTLE_SECONDS)
            followed, _ = memory_of(process.pid)
            with ApiServer(url, folder / "ca.crt") as api:
                for each in range(CLUSTERS):
                    pod = _worker(each, PODS_EACH)
                    meta = pod["metadata"]
                    for label in [label for label in meta["labels"] if "replica" in label]:
                        del meta["labels"][label]
                    response = api.review(pod_review(pod))
                    assert "patch" in response, response
            claimed, peak = memory_of(process.pid)
        finally:
            process.kill()
    return followed, claimed, peak


def _await_ready(url: str) -> None:
    retry = ["curl", "--silent", "--fail", "--retry", str(READY_SECONDS), "--retry-delay", "1"]
    subprocess.run([*retry, "--retry-all-errors", url], check=True, capture_output=True)


def memory_of(pid: int) -> tuple[float, float]:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


def _kubeconfig(port: int) -> Object:
    cluster = {"name": "it", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [cluster],
        "users": [{"name": "it", "user": {}}],
    }


if __name__ == "__main__":
    main()
