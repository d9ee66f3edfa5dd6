"""Driver for an environment with Ray: runs one task of some seconds, and prints its result."""

import json
import sys
import time
from pathlib import Path

import ray

address, seconds, begun = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
ray.init(address, log_to_driver=False)


@ray.remote(num_cpus=1, max_retries=0)  # type: ignore[untyped-decorator] # Ray is not here
def work() -> str:
    begun.touch()
    time.sleep(seconds)
    return "finishes"


end = work.remote()
try:
    outcome = ray.get(end)
except ray.exceptions.RayError as error:
    outcome = type(error).__name__
sys.stdout.write(json.dumps(outcome) + "\n")
