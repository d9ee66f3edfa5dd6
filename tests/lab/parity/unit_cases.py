"""Compare the rules with KubeRay's unit cases: `python -m tests.lab.parity.unit_cases [VERSION]`.

A case checks a part of an object. The rest is taken from a valid object, and KubeRay's result for
the part must equal the result of the rules for the object. Exit code 1: differences found.
"""

import sys
from collections import Counter
from typing import Any

from tests.e2e.go import CANNOT_BUILD, CannotBuildError
from tests.lab.parity.build import available, versions
from tests.lab.parity.cases import Case, cases
from tests.lab.parity.compare import KUBERAYS
from tests.webhook.validation.samples import base
from webhook.validation.change import INCREMENTAL
from webhook.validation.finding import ALWAYS, DENY, KubeRay
from webhook.validation.rule_settings import GATES, RuleSettings, parse_kuberay
from webhook.validation.ruleset import check
from webhook.validation.schema import prune_object

Json = dict[str, Any]

NOT_CARRIED = (
    ("must set both minReplicas and maxReplicas", "the CRD's defaults fill both in"),
    ("conditions should not be both true", "no user writes a status"),
)
"""Answers that no stored object gets, and why."""
CLUSTERS = ("rayClusterSpec", "rayClusterConfig")
CLUSTERS_CHECKED = (1, 4)
"""The release since which RayJobs and RayServices are checked with their RayCluster."""
OPTIONS = "ValidateClusterUpgradeOptions"
"""Is only called for this type of upgrade, with this gate on; its cases leave both out."""
GATE = "RayServiceIncrementalUpgrade"
_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")


def whole(case: Case, release: KubeRay) -> Json:
    """Return the object that a case stands for, as the CRD of a release keeps it."""
    kind = next(each for each in (*_KINDS, "") if case.check.startswith(f"Validate{each}"))
    kind = kind or "RayService"
    valid, given = base(kind), _clean(case.arguments[0])
    if case.check.endswith("Metadata"):
        valid["metadata"] = given
    elif case.check == "ValidateRayClusterSpec" and "spec" not in given:
        valid["spec"] = given
        valid["metadata"]["annotations"] = _clean(case.arguments[1]) or {}
    elif case.check.endswith(("Status", "UpgradeOptions")):
        valid = _over(valid, given)
        if case.check == OPTIONS:
            valid = _over(valid, {"spec": {"upgradeStrategy": {"type": INCREMENTAL}}})
            valid["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = (
                given["spec"].get("rayClusterConfig", {}).get("enableInTreeAutoscaling", False)
            )
    else:
        spec = given.get("spec", {})
        for name in CLUSTERS if release < CLUSTERS_CHECKED else ():
            if name in spec:
                spec[name] = _over(base(kind)["spec"][name], spec[name])
        valid["spec"] = spec
        valid["metadata"] |= given.get("metadata", {})
    status = valid.pop("status", None)
    kept: Json = prune_object(kind, valid, release)
    return kept if status is None else {**kept, "status": status}


def differs(case: Case, release: KubeRay) -> str:
    """Say how the rules differ from a case, or nothing."""
    gates = {name: on for name, on in case.gates.items() if name in GATES}
    if case.check == OPTIONS:
        gates[GATE] = True
    value = whole(case, release)
    found = check(value["kind"], value, RuleSettings(kuberay=release, gates=gates))
    denials = [each for each in found if each.level == DENY and each.rule in KUBERAYS]
    if case.error and not denials:
        return f"only KubeRay refuses it: {case.error}"
    if denials and not case.error:
        said = "; ".join(f"{each.path}: {each.message} ({each.rule})" for each in denials)
        return f"only the rules refuse it: {said}"
    return ""


def main(arguments: list[str]) -> int:
    agreed = True
    for version in arguments or available():
        if version not in versions():
            print(f"KubeRay {version}: the module with its unit cases is not published")
            return CANNOT_BUILD
        try:
            found = cases(version)
        except CannotBuildError as error:
            print(f"cannot build here: {error}", file=sys.stderr)
            return CANNOT_BUILD
        left = Counter(
            (each.test, why) for each in found for text, why in NOT_CARRIED if text in each.error
        )
        carried = [case for case in found if not any(text in case.error for text, _ in NOT_CARRIED)]
        release = parse_kuberay(version) or ALWAYS
        odd = [(case, said) for case in carried if (said := differs(case, release))]
        print(f"KubeRay {version}: {len(carried)} unit cases, of which {len(odd)} differ")
        for (test, why), number in left.items():
            print(f"  {number} of {test} not carried over: {why}")
        for case, said in odd:
            print(f"  {case.test}, {case.check}: {said[:400]}")
        agreed &= not odd and bool(carried)
    return 0 if agreed else 1


def _clean(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON of Go without its nulls."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if item is not None}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _over(under: Json, over: Json) -> Json:
    merged = dict(under)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            merged[key] = _over(under[key], value)
        elif value not in ({}, [], ""):
            merged[key] = value
    return merged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
