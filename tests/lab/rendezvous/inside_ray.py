"""Program for the head, inside the environment of Ray: prints Ray's view of its nodes, and connects
the hosts of each replica in a JAX program.
"""

import json
import os
import socket
import sys
import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

NODES = int(sys.argv[1])
SECONDS = 400


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator] # Ray is not here
def meet() -> dict[str, Any]:
    """Meet the other hosts of the replica by nothing but our variables, and say who came."""
    import jax  # noqa: PLC0415 - in the worker
    import jax.numpy as jnp  # noqa: PLC0415
    from jax._src.clusters import cloud_tpu_cluster as tpu  # noqa: PLC0415
    from jax.experimental import multihost_utils  # noqa: PLC0415

    variables = os.environ
    if "TPU_WORKER_ID" in variables:  # as JAX itself reads a slice of GKE
        tpu.get_tpu_env_value_from_metadata = lambda _key: None  # the server for it is Google's
        address = tpu.GkeTpuCluster.get_coordinator_address(SECONDS, None)
        count, number = tpu.GkeTpuCluster.get_process_count(), tpu.GkeTpuCluster.get_process_id()
    else:
        address = f"{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}"
        count, number = int(variables["NNODES"]), int(variables["NODE_RANK"])
    jax.config.update("jax_platforms", "cpu")
    jax.distributed.initialize(address, count, number, initialization_timeout=SECONDS)
    came = multihost_utils.process_allgather(jnp.array(number))
    return {
        "group": variables["RAY_NODE_TYPE_NAME"],
        "host": socket.gethostname(),
        "number": number,
        "came": [int(each) for each in came],
    }


ray.init("auto", log_to_driver=False)
until = time.monotonic() + SECONDS
while len(nodes := [node for node in ray.nodes() if node["Alive"]]) < NODES:
    if time.monotonic() > until:
        sys.exit(f"only {len(nodes)} of {NODES} nodes came")
    time.sleep(0.5)
workers = [node for node in nodes if "node:__internal_head__" not in node["Resources"]]
there = [
    meet.options(  # on this node and no other
        scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    ).remote()
    for node in workers
]
said = [
    {**met, "resources": node["Resources"], "labels": node["Labels"]}
    for met, node in zip(ray.get(there), workers, strict=True)
]
sys.stdout.write(json.dumps(said) + "\n")
