"""Start a real Ray on the pods of `groups.yaml` as the webhook completes them, each on a separate
host, and connect the hosts of each replica.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.lab.facts.wheel import INTERPRETER
from tests.lab.program import Json
from tests.lab.rendezvous.hosts import Hosts, run_isolated
from tests.lab.rendezvous.pods import Pod, admitted
from webhook.api import names

HERE: Final = Path(__file__).parent
DRIVER: Final = HERE / "inside_ray.py"
SECONDS: Final = 1000
PORT: Final = "6379"
HOSTS: Final = 4
GPU: Final = "nvidia.com/gpu"
CLIQUE: Final = "nvidia.com/gpu.clique"
DOMAIN: Final = "7b3c.0"
"""The label of the Nodes with GPUs, and its value."""
_LOW: Final = ("--num-cpus", "0", "--object-store-memory", "80000000", "--disable-usage-stats")
_HEAD: Final = """
"$@" || exit 1
exec {python} {driver} {nodes}
"""


def main() -> int:
    hosts: list[Json] = json.loads(run_isolated("tests.lab.rendezvous", seconds=SECONDS + 30))
    for host in hosts:
        print(f"{host['host']}: process {host['number']}, met {host['came']}")
    faults = list(_faults(hosts))
    print(*faults or ["all hosts met those of their replica"], sep="\n")
    return 1 if faults else 0


def bring_together(folder: Path) -> int:
    pods = admitted(HERE / "groups.yaml")
    hosts = Hosts(folder)
    addresses = {pod.host: hosts.add(pod.host, pod.names) for pod in pods}
    running = {}
    for pod in pods:
        pod.bind({CLIQUE: DOMAIN} if GPU in pod.devices else {})
        own = pod.environment(addresses[pod.host])
        path = f"{INTERPRETER.parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": os.environ.get("HOME", "/"), **own}
        command = _command(pod, own, folder, len(pods), addresses[pod.host])
        running[pod.host] = hosts.run(pod.host, command, environment)
    (head,) = [pod.host for pod in pods if pod.head]
    if running[head].wait(SECONDS):
        for name in running:
            sys.stderr.write(f"--- {name}\n{hosts.said(name)[-2000:]}\n")
        return 1
    # Ray may log something after it
    print(*(line for line in hosts.said(head).splitlines() if line.startswith("[{")))
    return 0


def _command(pod: Pod, own: Json, folder: Path, nodes: int, address: str) -> list[str]:
    """Return what the first container of a pod runs: what KubeRay's command comes down to."""
    start = [str(INTERPRETER.parent / "ray"), "start", "--node-ip-address", address, *_LOW]
    if pod.head:
        begin = _HEAD.format(python=INTERPRETER, driver=DRIVER, nodes=nodes)
        start += ["--head", "--port", PORT, "--temp-dir", str(folder)]
        return ["sh", "-c", begin, "sh", *start, "--include-dashboard", "false"]
    start += ["--block", "--address", f"{own['FQ_RAY_IP']}:{PORT}"]
    if names.RESOURCE_TPU in pod.devices:
        start += ["--resources", json.dumps({"TPU": int(pod.devices[names.RESOURCE_TPU])})]
    if GPU in pod.devices:
        start += ["--num-gpus", pod.devices[GPU]]
    return ["sh", "-c", 'until "$@"; do sleep 1; done', "sh", *start]


def _wrong_domains(hosts: list[Json]) -> Iterator[str]:
    """Yield the hosts that Ray takes to be in another NVLink domain than their Node."""
    for host in hosts:
        domain = host["labels"].get("ray.io/gpu-domain", "")
        if domain != ("" if host["group"] == "slices" else DOMAIN):
            yield f"{host['host']}: Ray knows it in the NVLink domain {domain!r}"


def _faults(hosts: list[Json]) -> Iterator[str]:
    everybody = list(range(HOSTS))
    for group in ("slices", "gpus"):
        found = sorted(
            (host for host in hosts if host["group"] == group), key=lambda host: int(host["number"])
        )
        if [host["number"] for host in found] != everybody:
            yield f"{group}: processes {[host['number'] for host in found]}"
        for host in found:
            if host["came"] != everybody:
                yield f"{host['host']}: met {host['came']}"
            rank = host["number"]
            if host["host"] != f"{group}-0-{rank}":
                yield f"{host['host']}: is process {host['number']}"
    yield from _wrong_domains(hosts)
    slices = [host for host in hosts if host["group"] == "slices"]
    for host in slices:
        resources, first = host["resources"], host["number"] == 0
        if (resources.get("TPU"), resources.get("slices-0")) != (4, 1):
            yield f"{host['host']}: Ray takes it for {resources}"
        if ("TPU-v4-32-head" in resources) is not first:
            yield f"{host['host']}: Ray {'does not take' if first else 'takes'} it for the first"


if __name__ == "__main__":
    sys.exit(bring_together(Path(sys.argv[1])) if sys.argv[1:] else main())
