"""`python -m tests.lab.ray_parsers ENVIRONMENT ...`; exit code 1: a difference that no table has.

An environment is a directory in `.cache` with a Ray. RayClusters that the CRD and the other rules
accept are passed to Ray's parsers there: if a parser raises an error, a rule must deny, and vice
versa.
"""

import copy
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from tests import ROOT
from tests.lab.parity.compare import Disagreement
from tests.lab.parity.mutants import EXAMPLES, mutants, seeds
from tests.lab.program import Json, Program
from webhook.api import names
from webhook.validation.cluster import UNBOUNDED
from webhook.validation.finding import DENY, Finding
from webhook.validation.ruleset import check_file
from webhook.validation.schema import prune_object

QUESTIONS = Path(__file__).parent / "inside_ray.py"
IMAGE = "example.com/ray:own"
CLUSTERS, SEED = 20_000, 1
SHOWN = 20
AUTOSCALER = {
    "param-ends-autoscaler",
    "autoscaled-without-groups",
    "group-resource-unreadable",
    "cpu-unknown",
}
"""The rules by which Ray's autoscaler cannot read the RayCluster."""
RESIZE = {"ippr-malformed", "ippr-value-too-low", "ippr-group-not-resizable"}
"""The rules by which it cannot read the annotation `ray.io/ippr`."""
PARSERS = {"autoscaler": AUTOSCALER, "resize": RESIZE}

FIELDS = ("workerGroupSpecs", "groupName", "minReplicas", "maxReplicas", "template", "containers")
"""What else a reader may miss in an object."""

DIFFERENCES = (
    Disagreement(
        right="the rule",
        why="Ray reads a timeout of 0 or less and maxima below what pods have, and resizes fail",
        ours="ippr-value-too-low",
    ),
    Disagreement(
        right="the rule",
        why="Ray does not look at `resources`, of which KubeRay makes start parameters",
        ours="ippr-group-not-resizable",
        at=r"resources\[[^.]*\]$",
    ),
    Disagreement(
        right="Ray",
        why="Ray 2.40 ends over an accelerator that it does not know, later ones only log",
        said=rf"^KeyError: '(?!{'|'.join(FIELDS)})",
    ),
    Disagreement(
        right="Ray",
        why="Ray 2.40 wants both labels of a TPU node, later ones only log; a rule warns",
        said="^KeyError: 'cloud.google.com/gke-tpu-(accelerator|topology)'",
    ),
    Disagreement(
        right="Ray",
        why="a container's limit is negative: the API server refuses the pods, and no rule does",
        said="^ValidationError: -[0-9]+ is less than the minimum of 0",
    ),
    Disagreement(
        right="Ray",
        why="Ray 2.40 wants rayStartParams, as the CRD did before KubeRay 1.4; later ones do not",
        said="^KeyError: 'rayStartParams'",
    ),
)


def clusters(installed: Json) -> Iterator[Json]:
    """Yield RayClusters that autoscale, as an API server keeps them, for an installed Ray."""
    given = [value for value in seeds(EXAMPLES) if value["kind"] == names.RAYCLUSTER_KIND]
    noted = [
        text
        for value in given
        if (text := (value["metadata"].get("annotations") or {}).get(names.ANNOTATION_IPPR))
    ]
    random = Random(SEED)  # noqa: S311 - the same ones each time
    for each in mutants(given, SEED):
        value = copy.deepcopy(each)
        spec, meta = value.get("spec"), value.get("metadata")
        if not isinstance(spec, dict) or not isinstance(meta, dict):
            continue
        spec |= {"enableInTreeAutoscaling": True, "rayVersion": installed["ray"]}
        spec["autoscalerOptions"] = {"version": "v2"}
        meta |= {"name": "mutant", "namespace": "default"}
        if random.random() < 0.5 and isinstance(meta.setdefault("annotations", {}), dict):
            meta["annotations"][names.ANNOTATION_IPPR] = random.choice(noted)
        kept = prune_object(value["kind"], value, None)
        if _filled(kept, resources=installed["reads_resources_of_groups"]):
            yield kept


def _filled(value: Json, *, resources: bool) -> bool:
    """Fill in the CRD's defaults, and images without a release of Ray; False without a head.

    A Ray that does not read the `resources` of groups gets none.
    """
    spec = value["spec"]
    groups = spec.get("workerGroupSpecs")
    listed = groups if isinstance(groups, list) else []
    for group in (spec.get("headGroupSpec"), *listed):
        if isinstance(group, dict) and not resources:
            group.pop("resources", None)
    for group in listed:
        if isinstance(group, dict):
            defaults = {"replicas": 0, "minReplicas": 0, "maxReplicas": UNBOUNDED, "numOfHosts": 1}
            group |= {name: each for name, each in defaults.items() if name not in group}
    try:
        spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    except (KeyError, IndexError, TypeError):
        return False
    return True


def denials(value: Json) -> list[Finding]:
    return [each for each in check_file(value["kind"], value) if each.level == DENY]


def compare(environment: str) -> bool:
    asked, raised = Counter[str](), Counter[str]()
    odd: Counter[tuple[str, str, str]] = Counter()
    with Program(ROOT / ".cache" / environment / "bin" / "python", QUESTIONS) as program:
        installed = program.read(Json)
        for value in islice(clusters(installed), CLUSTERS):
            found = denials(value)
            if any(each.rule not in AUTOSCALER | RESIZE for each in found):
                continue
            for reader, said in program.answer(value, Json).items():
                asked[reader] += 1
                raised[reader] += bool(said)
                odd.update(_differences(PARSERS[reader], found, said))
    for reader, number in asked.items():
        unreadable = f"{raised[reader]} that it cannot read"
        print(f"Ray {installed['ray']}, {reader}: {number} RayClusters, {unreadable}")
    for reader in PARSERS.keys() - asked.keys():
        print(f"Ray {installed['ray']}, {reader}: not run: this Ray has none")
    print(f"  not in the table: {sum(odd.values())}")
    for (rule, said, path), number in odd.most_common(SHOWN):
        print(f"  {number:5} {rule or 'Ray alone'}: {said} {path}")
    return not odd and all(raised[reader] for reader in asked)


def _differences(
    rules: set[str], found: list[Finding], said: str
) -> Iterator[tuple[str, str, str]]:
    """Yield where a reader and the rules about it differ, unless the table has it."""
    denied = [each for each in found if each.rule in rules]
    if said and not denied:
        differing = [("", said, "")]
    else:
        differing = [] if said else [(each.rule, "", each.path) for each in denied]
    for each in differing:
        if not any(known.explains(*each) for known in DIFFERENCES):
            yield each


def main() -> int:
    agreed = [compare(environment) for environment in sys.argv[1:]]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
