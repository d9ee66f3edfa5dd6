"""Start torchrun on the pods of `torchrun.yaml` as the webhook completes them, each on a separate
host: `python -m tests.lab.rendezvous.torchrun PYTHON`, of an environment with torch. Run by
hand, because torch needs gigabytes.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tests.lab.rendezvous.hosts import Hosts, run_isolated
from tests.lab.rendezvous.pods import admitted

HERE: Final = Path(__file__).parent
PROCESSES: Final = 8
SECONDS: Final = 300


def main(python: Path) -> int:
    output = run_isolated("tests.lab.rendezvous.torchrun", str(python), seconds=SECONDS)
    print(output)
    met = f"met {' '.join(map(str, range(PROCESSES)))}"
    return int(output.splitlines() != [met] * PROCESSES)


def bring_together(python: Path, folder: Path) -> int:
    """Start torchrun on each host, within `unshare`, and print what the processes say."""
    workers = [pod for pod in admitted(HERE / "torchrun.yaml") if not pod.head]
    hosts = Hosts(folder)
    addresses = {pod.host: hosts.add(pod.host, pod.names) for pod in workers}
    command = [str(python.parent / "torchrun"), str(HERE / "inside_torch.py")]
    running = {
        pod.host: hosts.run(
            pod.host, command, {"PATH": os.environ["PATH"], **pod.environment(addresses[pod.host])}
        )
        for pod in workers
    }
    codes = [process.wait(SECONDS) for process in running.values()]
    for name in running:
        said = hosts.said(name)
        print(*(line for line in said.splitlines() if line.startswith("met ")), sep="\n")
        if any(codes):
            sys.stderr.write(f"--- {name}\n{said[-2000:]}\n")
    return max(map(abs, codes))


if __name__ == "__main__":
    paths = [Path(each) for each in sys.argv[1:]]
    sys.exit(bring_together(*paths) if len(paths) > 1 else main(*paths))
