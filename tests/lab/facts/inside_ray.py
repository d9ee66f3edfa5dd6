"""Program for an environment with Ray: prints facts of Ray as JSON."""

import ast
import json
import sys
from pathlib import Path

import ray
from ray._private.accelerators import tpu
from ray.autoscaler._private.kuberay import autoscaling_config, node_provider, utils
from ray.autoscaler.v2.schema import IPPRSpecsSchema
from ray.scripts.scripts import start
from ray.util.tpu import get_tpu_coordinator_env_vars

group = IPPRSpecsSchema["properties"]["groups"]["additionalProperties"]
generations = utils.gke_tpu_accelerator_to_generation
sources = (tpu, autoscaling_config, node_provider)
constants = {
    name: found
    for module in sources
    for name, found in vars(module).items()
    if isinstance(found, str)
}
options = {option[2:] for each in start.params for option in each.opts if option.startswith("--")}
# The modules themselves need packages that Ray Serve alone installs.
serve = {
    part.name: sorted(
        each.target.id
        for each in part.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    )
    for name in ("config.py", "schema.py")
    for part in ast.parse((Path(ray.__file__).parent / "serve" / name).read_text()).body
    if isinstance(part, ast.ClassDef)
}

json.dump(
    {
        "version": ray.__version__,
        "constants": {name: found for name, found in constants.items() if name.isupper()},
        "topologies": {name: sorted(found) for name, found in tpu.VALID_TPU_TOPOLOGY.items()},
        "generations": {
            label: (name, tpu.get_tpu_cores_per_chip(tpu.normalize_tpu_accelerator_type(name)))
            for label, name in generations.items()
        },
        "chips_per_host": {
            name: {topology: tpu.get_chips_per_host(topology, name) for topology in sorted(found)}
            for name, found in tpu.VALID_TPU_TOPOLOGY.items()
        },
        "megascale": sorted(get_tpu_coordinator_env_vars("host", 2, 0)),
        "start_options": sorted(options),
        "serve_keys": serve,
        "ippr_keys": sorted(group["properties"]),
    },
    sys.stdout,
)
