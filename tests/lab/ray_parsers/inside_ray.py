"""Program for an environment with Ray: prints its parsers' errors for each RayCluster."""

import json
import logging
import sys
from inspect import signature
from typing import Any

import ray
from ray.autoscaler._private.kuberay.autoscaling_config import (
    _derive_autoscaling_config_from_ray_cr,
    _get_num_cpus,
)

logging.disable()
try:
    from ray.autoscaler.v2.instance_manager.cloud_providers.kuberay.ippr_provider import (
        KubeRayIPPRProvider,
    )
except ImportError:
    resizer: Any = None
else:
    resizer = KubeRayIPPRProvider(None, None)


def raised(read: Any, cluster: Any) -> str:  # noqa: ANN401 - runs without our types
    """Return what a reader raises, or nothing."""
    try:
        read(cluster)
    except Exception as error:  # noqa: BLE001 - that is the question
        return f"{type(error).__name__}: {error}"[:300]
    return ""


print(
    json.dumps(
        {
            "ray": ray.__version__,
            "reads_resources_of_groups": "group_resources" in signature(_get_num_cpus).parameters,
        }
    ),
    flush=True,
)
for line in sys.stdin:
    asked = json.loads(line)
    said = {"autoscaler": raised(_derive_autoscaling_config_from_ray_cr, asked)}
    if resizer is not None:
        said["resize"] = raised(resizer.validate_and_set_ippr_specs, asked)
    print(json.dumps(said), flush=True)
