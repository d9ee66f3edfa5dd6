"""docs/diagnoses.md from the diagnoses and their examples, and the JSON Schema of `status`."""

import json
from collections.abc import Iterator
from typing import Any

from tests import ROOT
from tests.pages.markdown import explained, folded
from tests.webhook.diagnostics.samples import Sample, diagnosis_of, samples
from webhook.diagnostics.diagnosis import Diagnosis
from webhook.diagnostics.document import schema
from webhook.diagnostics.examination import DIAGNOSES, EXPLAINS

PAGE = ROOT / "docs" / "diagnoses.md"
SCHEMA = PAGE.with_name("status.schema.json")

INTRODUCTION = """# Diagnoses

<!-- Written by `make generate`; a test fails when this page is out of date. -->

`ray-webhook status` compares Ray clusters with their desired state, and prints the commands for a
fix. An **error** does not work, and makes `status` exit with 1; a **warning** may stop working; an
**info** is intended. Most are shown only after a delay, because a starting cluster passes through
the same states. The controller writes the [events](status.md#events).

In the examples, the RayCluster `llama` in the namespace `team` has two TPU slices of four hosts.
"""


def page() -> str:
    return folded("\n".join(_lines()).rstrip("\n") + "\n")


def schema_text() -> str:
    return json.dumps(schema(), indent=2) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    examples = samples()
    for diagnosis in DIAGNOSES:
        own = [
            each
            for name, each in examples.items()
            if diagnosis_of(name) == diagnosis.id and each.listed
        ]
        yield from _diagnosis(diagnosis, own)


def _diagnosis(diagnosis: Diagnosis[Any], examples: list[Sample]) -> Iterator[str]:
    what, why, source = explained(diagnosis.check.__doc__ or "")
    yield f"## {diagnosis.id}\n"
    yield f"**{diagnosis.level}**{_counts(diagnosis)}{_event(diagnosis)}: {what}\n"
    yield f"{why} ([source]({source}))\n"
    if consequences := EXPLAINS.get(diagnosis.id):
        listed = ", ".join(f"[{each}](#{each})" for each in consequences)
        yield f"Its consequences are not shown: {listed}.\n"
    for sample in examples:
        problem = next(
            each for each in sample.scene().examined().every_problem if each.id == diagnosis.id
        )
        yield f"- Example: {problem.message}"
        yield f"  - Fix: {problem.remedy}"
    yield ""


def _event(diagnosis: Diagnosis[Any]) -> str:
    if diagnosis.event is None:
        return ""
    after = f" after {diagnosis.event.seconds:.0f} s" if diagnosis.event.seconds else ""
    return f", event `{diagnosis.event.reason}`{after}"


def _counts(diagnosis: Diagnosis[Any]) -> str:
    return f" after {diagnosis.seconds:.0f} s" if diagnosis.seconds else ""
