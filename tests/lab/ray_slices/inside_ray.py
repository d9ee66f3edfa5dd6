"""Program for an environment with Ray: prints Ray's view of the hosts of each group."""

import json
import os
import sys
from typing import Any

from ray._private.accelerators import tpu

Json = dict[str, Any]

metadata_asked: list[str] = []
# Else it asks a server that is not there
tpu._get_tpu_metadata = metadata_asked.append  # noqa: SLF001
manager = tpu.TPUAcceleratorManager
kept = dict(os.environ)


def verdict(group: Json, variables: dict[str, str]) -> Json:
    os.environ.clear()
    os.environ.update(kept)
    os.environ.update(variables)
    metadata_asked.clear()
    pod_type = manager.get_current_node_tpu_pod_type()
    topology = manager.get_current_node_tpu_topology()
    worker = manager.get_current_node_tpu_worker_id()
    return {
        "name": manager.get_current_node_tpu_name(),
        "worker": worker,
        "topology": topology,
        "pod_type": pod_type,
        "expected_pod_type": tpu.infer_tpu_pod_type_from_topology(
            group["topology"], group["generation"]
        ),
        "valid": bool(
            pod_type and topology and manager.is_valid_tpu_accelerator_topology(pod_type, topology)
        ),
        "workers": manager.get_num_workers_in_current_tpu_pod() if pod_type else None,
        "resources": manager.get_current_node_additional_resources(),
        "labels": manager.get_current_node_accelerator_labels(),
        "subslices": subslices(worker, topology),
        "metadata_asked": metadata_asked[:],
    }


def subslices(worker: int | None, topology: str | None) -> dict[str, str] | None:
    """The labels of a host's sub-slices; None for a topology that Ray does not divide."""
    try:
        found: dict[str, str] = tpu._build_subslice_labels(worker, topology)  # noqa: SLF001
    except (ValueError, TypeError):
        return None
    return found


for line in sys.stdin:
    asked = json.loads(line)
    manager.get_current_node_num_accelerators = staticmethod(lambda chips=asked["chips"]: chips)
    print(json.dumps([verdict(asked, variables) for variables in asked["hosts"]]), flush=True)
