"""docs/rules.md and a page for each family of rules, from the rules and their examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests import ROOT
from tests.harness.ray_objects import Json
from tests.pages.markdown import explained, folded
from tests.webhook.validation.samples import Sample, base, samples
from webhook.validation.finding import ALWAYS, KubeRay
from webhook.validation.pods.families import FAMILIES as PODS
from webhook.validation.rule_settings import GATES
from webhook.validation.rules import FILE_RULES, KUBERAY, NO_ONE_ELSE, RULES, UPDATE_RULES, Rule

PAGE = ROOT / "docs" / "rules.md"
FOLDER = PAGE.with_suffix("")

WITHOUT_RULES = (
    ("ValidateRayClusterStatus", "conditions Suspending and Suspended", "no user writes a status"),
    (
        "ValidateRayClusterSpec",
        "no minReplicas or maxReplicas without autoscaling",
        "the CRD's defaults fill both in before any admission",
    ),
    (
        "rayClusterReconcile",
        "TLS options without cert-manager",
        "it depends on what else is installed, not on the object",
    ),
)
"""Checks of KubeRay that no rule makes: the function, what it refuses, and the reason."""


class Family(NamedTuple):
    """Rules of one subject, which share a page."""

    name: str
    title: str
    rules: tuple[Rule[Any], ...]


def _of(*modules: str) -> tuple[Rule[Any], ...]:
    return tuple(
        rule
        for module in modules
        for rule in RULES
        if rule.check.__module__ == f"webhook.validation.{module}"
    )


FAMILIES = (
    Family("objects", "Every object", _of("decoding", "schema", "metadata")),
    Family("pod-templates", "Pod templates", tuple(rule for rule in RULES if rule.id in PODS)),
    Family("worker-groups", "Worker groups", _of("groups")),
    Family("accelerators", "Accelerators and slices", _of("accelerators", "multislice")),
    Family("lifecycle", "Start and termination of pods", _of("lifecycle")),
    Family("head-service", "Ports of the head", _of("head_service")),
    Family("resize", "Resize in place", _of("in_place_resize")),
    Family("autoscaling", "Autoscaling", _of("autoscaling")),
    Family(
        "ray-start",
        "Start of Ray: parameters, versions and variables",
        _of("ray_start", "ray_command"),
    ),
    Family("fault-tolerance", "Fault tolerance and history server", _of("fault_tolerance")),
    Family("security", "Authentication, network policies and TLS", _of("security")),
    Family("feature-gates", "Feature gates of KubeRay", _of("feature_gates")),
    Family(
        "scheduling", "Pod groups, ComputeDomains, Kueue and labels of Nodes", _of("scheduling")
    ),
    Family("annotations", "Annotations of the webhook", _of("opt_ins")),
    Family("shards", "Shard groups", _of("shard_groups")),
    Family("jobs", "RayJob and RayCronJob", _of("rayjob", "submission", "deletion", "raycronjob")),
    Family("working-dir", "Addresses of code", _of("working_dir")),
    Family("demands", "Demands of jobs and deployments", _of("demands")),
    Family("services", "RayService", _of("rayservice", "serve_config")),
    Family("quotas", "Quotas and limits of the namespace", _of("quota_forecast", "limit_ranges")),
    Family("updates", "Updates", _of("updates")),
)

_WRITTEN = "<!-- Written by `make generate`; a test fails when this page is out of date. -->"

INTRODUCTION = """# Rules

{written}

{count} rules check RayClusters, RayJobs, RayServices and RayCronJobs, in the webhook and in
`ray-webhook validate`: {denying} deny, and {warning} **warn**, unless the [settings](#enforcement)
say otherwise. The page of a rule has the reason, the source, [examples](rules/examples.md), and who
else refuses such an object: KubeRay, which writes an event and retries; the API server, when the
pods are created; Ray, which ends or logs an error; or {no_one_else}: such an object hangs or does
something other than written. See also [What KubeRay checks](rules/kuberay.md).
"""

NOTES = """## Enforcement

The enforcement level `deny` rejects the object, `warn` admits it with a warning, and `off` disables
the rule. Set levels in the [settings](settings.md); in the chart they are
`config.validation.levels`:

```yaml
apiVersion: config.ray-webhook.dev/v1alpha1
kind: Configuration
validation:
  levels:
    tpu-topology-mismatch: warn
    max-replicas-unbounded: off
```

`validate` reads the same file as `.ray-webhook.yaml`, from its working folder or the nearest one
above.

`ray-webhook explain rule tpu-topology-mismatch` prints the text of a rule.

In a cluster with existing RayClusters, `ray-webhook validate --cluster -A` shows their errors. To
start with warnings only, set all rules to `warn` and watch the metric
`ray_webhook_rule_warnings_total`.

## How the rules are applied

All findings come in one answer. An update is denied only for findings that the old object did not
have; the others become warnings. An object that is being deleted, and an update that changes only
`replicas`, `scaleStrategy` or finalizers, is denied only if it adds a value that KubeRay cannot
decode ([value-not-decodable](#value-not-decodable)), because such a value stops the operator.

The rules depend on the release of KubeRay: `validation.kuberay` names it, `validate` takes
`--kuberay 1.6`, and `serve` finds it by the stored CRD of RayClusters. A check that came with a
later KubeRay is left out. Where the release is unknown, the rules are those for the newest, and
what only that one checks is a warning.

Files are checked against the schemas of KubeRay's CRDs as well. Of their CEL rules, those for
`deletionStrategy` and the lists of allowed values are rules here. The API server alone checks that
`managedBy` and the backend of GCS fault tolerance never change: a file has no previous values.

Rules that depend on feature gates of the KubeRay operator use the defaults of its release, unless
`validation.gates` differs. Those of KubeRay 1.7: {gates}. `ray-webhook check` compares both with
the running operator.
"""

EXAMPLES = """# Rules: Examples and conformance suite

{written}

The examples of the rules show only the fields that matter; the rest is a minimal valid object,
below. `null` removes a field, and every worker group extends the one shown here; `repeat: 3` stands
for three of them, with different names. All examples are run as tests. A release contains them as
whole objects with the expected findings in `rules.yaml`, a list of rules: `rule`, `action`, `since`
(the first release of KubeRay with the check), `refusedBy` (who else refuses it) and `cases`. Rules
about large objects and duplicate keys have no cases. Fields of a case:

| field | meaning |
|---|---|
| `object` | the object, as the API server stores it; with `source: file`, as a person writes it |
| `old` | the previous version: the case is an update |
| `kuberay` | the release of KubeRay; without it, the newest |
| `featureGates` | gates of the KubeRay operator that differ from its defaults |
| `podGroups` | whether the API server serves PodGroups |
| `noComputeDomains` | why the webhook creates no ComputeDomains |
| `nodeLabels` | the labels of nodes that pods may receive; without it, all |
| `namespace` | the ResourceQuotas and LimitRanges of the namespace |
| `findings` | all findings, each with `rule`, `action` (`deny`, `warn`) and `field`, in no order |
"""


def pages() -> dict[Path, str]:
    examples = samples()
    every = {PAGE: "\n".join(_index())}
    for family in FAMILIES:
        lines = [f"# Rules: {family.title}\n", f"{_WRITTEN}\n", f"{_BACK}\n"]
        for rule in family.rules:
            lines += _rule(rule, examples[rule.id])
        every[FOLDER / f"{family.name}.md"] = "\n".join(lines)
    every[FOLDER / "kuberay.md"] = "\n".join(_parity())
    minimal = _yaml(base("RayCluster"))
    every[FOLDER / "examples.md"] = f"{EXAMPLES.format(written=_WRITTEN)}\n{minimal}"
    return {
        path: folded(text.rstrip("\n") + "\n").replace(_ANCHOR, "<a id")
        for path, text in every.items()
    }


_ANCHOR = "<a\N{NO-BREAK SPACE}id"
"""What no line ends within."""
_BACK = "[All rules](../rules.md), and how they are applied; [what examples omit](examples.md)."

# What docstrings call this file, for short.
VALIDATION_GO = "KubeRay validation.go"
VALIDATION_URL = "https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go"


def _index() -> Iterator[str]:
    denying = sum(rule.level == "deny" for rule in RULES)
    yield INTRODUCTION.format(
        written=_WRITTEN, count=len(RULES), denying=denying, warning=len(RULES) - denying,
        no_one_else=NO_ONE_ELSE,
    )  # fmt: skip
    for family in FAMILIES:
        yield f"## {family.title}\n"
        for rule in family.rules:
            link = f'{_ANCHOR}="{rule.id}"></a>[{rule.id}](rules/{family.name}.md#{rule.id})'
            level = ", **warn**" if rule.level == "warn" else ""
            yield f"- {link}{level}: {explained(rule.text)[0]}{_only(rule)}"
        yield ""
    gates = ", ".join(f"`{name}` {'on' if on else 'off'}" for name, on in GATES.items())
    yield NOTES.format(gates=gates)


def _only(rule: Rule[Any]) -> str:
    """Return where a rule is not applied to every object."""
    if rule in FILE_RULES:
        return " Files only."
    return " Updates only." if rule in UPDATE_RULES else ""


def _rule(rule: Rule[Any], sample: Sample) -> Iterator[str]:
    what, why, source = explained(rule.text)
    yield f"## {rule.id}\n"
    yield f"**{rule.level}** · who else refuses it: {rule.by} · {what}\n"
    if rule.since != ALWAYS:
        yield f"Checked by KubeRay {_shown(rule.since)} and later.\n"
    yield f"{why}\n"
    yield f"Source: {source.replace(VALIDATION_GO, f'[{VALIDATION_GO}]({VALIDATION_URL})')}\n"
    if sample.gates:
        yield (
            "With "
            + ", ".join(f"`{name}` {'on' if on else 'off'}" for name, on in sample.gates.items())
            + ".\n"
        )
    if sample.file:
        yield "By `ray-webhook validate` only.\n"
    if sample.duplicate:
        yield f"With `{'.'.join(sample.duplicate)}` twice.\n"
    if sample.kuberay:
        yield f"With KubeRay {_shown(sample.kuberay)}.\n"
    if sample.pod_groups is False:
        yield "Where the API server serves no PodGroups.\n"
    if sample.namespace:
        yield "In a namespace with:\n"
        yield from map(_yaml, sample.namespace)
    if sample.old is not None:
        yield f"Before:\n\n{_yaml(sample.old)}"
    yield f"Fails, at {', '.join(f'`{path}`' for path in sample.at)}:\n\n{_yaml(sample.fails)}"
    yield f"Passes:\n\n{_yaml(sample.passes)}"


def _shown(release: KubeRay) -> str:
    return ".".join(map(str, release))


def _yaml(value: Json) -> str:
    return f"```yaml\n{yaml.safe_dump(value, sort_keys=False, width=120)}```\n"


def _parity() -> Iterator[str]:
    yield "# What KubeRay checks\n"
    yield f"{_WRITTEN}\n"
    yield (
        "Every check of KubeRay 1.7's reconciler and of its optional webhook, with the functions "
        "of `validation.go`, and the rule that makes it at apply time.\n"
    )
    yield "| rule | refuses | KubeRay |\n|---|---|---|"
    for family in FAMILIES:
        for rule in family.rules:
            if rule.by == KUBERAY:
                link = f"[{rule.id}]({family.name}.md#{rule.id})"
                functions = ", ".join(f"`{name}`" for name in rule.functions) or "elsewhere"
                yield f"| {link} | {explained(rule.text)[0]} | {functions} |"
    for function, refuses, why in WITHOUT_RULES:
        yield f"| none: {why} | {refuses} | `{function}` |"
    yield ""
