"""Writes docs/rules.md from the rules and their examples: `python -m tests.validation.page`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.pages import folded
from tests.validation.builders import Json
from tests.validation.parity import PARITY
from tests.validation.samples import Sample, base, samples
from webhook.validation.finding import ALWAYS
from webhook.validation.rule import Rule
from webhook.validation.rule_settings import GATES
from webhook.validation.ruleset import (
    CLUSTER_RULES,
    CRON_RULES,
    FILE_RULES,
    JOB_RULES,
    OBJECT_RULES,
    RULES,
    SERVICE_RULES,
    UPDATE_RULES,
)

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"

CHAPTERS: tuple[tuple[str, tuple[Rule[Any], ...]], ...] = (
    ("Every object", OBJECT_RULES),
    ("RayCluster, alone or in a RayJob, RayService or RayCronJob", CLUSTER_RULES),
    ("RayJob, alone or in a RayCronJob", JOB_RULES),
    ("RayService", SERVICE_RULES),
    ("RayCronJob", CRON_RULES),
    ("Updates", UPDATE_RULES),
    ("Files, by `ray-webhook validate` only", FILE_RULES),
)

INTRODUCTION = """# Rules

<!-- Written by `python -m tests.validation.page`; a test fails when this page is out of date. -->

The webhook and `ray-webhook validate` check RayClusters, RayJobs, RayServices and RayCronJobs by
these {count} rules: {denying} deny and {warning} warn. A rule that denies catches what KubeRay
would refuse later, or what cannot work. All findings come in one answer. An update is denied only
for findings that the old object did not have; the others become warnings. An object that is being
deleted, and an update that changes only `replicas`, `scaleStrategy` or finalizers, is denied for
one thing alone: a value that it did not have and that KubeRay cannot decode
([value-not-decodable](#value-not-decodable)), which would stop KubeRay for everybody. A finalizer
can therefore always be removed.

The rules know the KubeRay that they speak for. `validation.kuberay` names its release, `validate`
takes `--kuberay 1.6`, and `serve` finds it by the stored CRD of RayClusters. A check that came with
a later KubeRay is left out. Where nobody knows the release, the rules speak for the newest, and
what only that one checks is a warning.

Files are held against the schemas of KubeRay's CRDs as well. `validate` evaluates no CEL: of the
rules in `x-kubernetes-validations`, those for `deletionStrategy` and the lists of allowed values
are rules here; left out are the others, by which `managedBy` and the backend of GCS fault tolerance
never change. A file does not tell what they were before, and the API server makes that check.

The first table says who else refuses the same, later: KubeRay, which writes an event and retries,
the API server, when the pods are created, or Ray, which ends or logs an error. What nobody refuses
starts, and hangs or does something else than is written.

Each rule can be set to `off`, `warn` or `deny`. Rules that depend on feature gates of the KubeRay
operator go by these defaults, those of KubeRay 1.7, unless settings say otherwise: {gates}.

The examples show only the fields that matter; the rest is a minimal valid object, below. `null`
removes a field, and every worker group stands on the one shown here. All examples are run as tests.
"""


def page() -> str:
    """Return the text of the page."""
    return folded("\n".join(_lines()).rstrip("\n") + "\n")


# What docstrings call this file, for short.
VALIDATION_GO = "KubeRay validation.go"
VALIDATION_URL = "https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go"


def explained(rule: Rule[Any]) -> tuple[str, str, str]:
    """Return what a rule catches, why it hurts, and the source, from the docstring
    of its function.
    """
    paragraphs = [
        " ".join(part.split()) for part in (rule.check.__doc__ or "").strip().split("\n\n")
    ]
    return paragraphs[0], " ".join(paragraphs[1:-1]), paragraphs[-1]


def _lines() -> Iterator[str]:
    denying = sum(rule.level == "deny" for rule in RULES)
    gates = ", ".join(f"`{name}` {'on' if on else 'off'}" for name, on in GATES.items())
    yield INTRODUCTION.format(
        count=len(RULES), denying=denying, warning=len(RULES) - denying, gates=gates
    )
    yield _yaml(base("RayCluster"))
    yield "| rule | level | who else refuses it | catches |\n|---|---|---|---|"
    for rule in RULES:
        what = explained(rule)[0]
        yield f"| [{rule.id}](#{rule.id}) | {rule.level} | {rule.by} | {what} |"
    yield ""
    examples = samples()
    for title, rules in CHAPTERS:
        yield f"## {title}\n"
        for rule in rules:
            yield from _rule(rule, examples[rule.id])
    yield from _parity()


def _rule(rule: Rule[Any], sample: Sample) -> Iterator[str]:
    what, why, source = explained(rule)
    yield f"### {rule.id}\n"
    yield f"**{rule.level}** · {what}\n"
    if rule.since != ALWAYS:
        yield f"Checked by KubeRay {'.'.join(map(str, rule.since))} and later.\n"
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
    if sample.kuberay:
        yield f"With KubeRay {'.'.join(map(str, sample.kuberay))}.\n"
    if sample.pod_groups is False:
        yield "Where the API server serves no PodGroups.\n"
    if sample.old is not None:
        yield f"Before:\n\n{_yaml(sample.old)}"
    yield f"Fails, at {', '.join(f'`{path}`' for path in sample.at)}:\n\n{_yaml(sample.fails)}"
    yield f"Passes:\n\n{_yaml(sample.passes)}"


def _yaml(value: Json) -> str:
    return f"```yaml\n{yaml.safe_dump(value, sort_keys=False, width=120)}```\n"


def _parity() -> Iterator[str]:
    yield "## What KubeRay checks\n"
    yield (
        "Every check of KubeRay 1.7's reconciler and of its optional webhook, and the rule that "
        "makes it at apply time.\n"
    )
    yield "| KubeRay | refuses | rule |\n|---|---|---|"
    for row in PARITY:
        rules = ", ".join(f"[{rule}](#{rule})" for rule in row.rules) or f"none: {row.why}"
        yield f"| `{row.where}` | {row.refuses} | {rules} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
