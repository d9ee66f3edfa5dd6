"""Write docs/diagnoses.md from the diagnoses and their examples, and the JSON Schema of `status -o
json`: `python -m tests.diagnostics.page`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.diagnostics.samples import Sample, samples
from tests.pages import folded
from webhook.diagnostics.causes import EXPLAINS
from webhook.diagnostics.diagnosis import Diagnosis
from webhook.diagnostics.document import schema
from webhook.diagnostics.examination import DIAGNOSES

PAGE = Path(__file__).parents[2] / "docs" / "diagnoses.md"
SCHEMA = PAGE.with_name("status.schema.json")

INTRODUCTION = """# Diagnoses

<!-- Written by `python -m tests.diagnostics.page`; a test fails when this page is out of date. -->

`ray-webhook status` compares Ray clusters with their desired state, and makes these {count}
diagnoses. An **error** does not work, and makes `status` exit with 1; a **warning** may stop
working; an **info** is intended. Most are shown only after a delay, because a starting cluster
passes through the same states. The examples are about a RayCluster `llama` in the namespace `team`,
with two TPU slices of four hosts.
"""


def page() -> str:
    """Return the text of the page."""
    return folded("\n".join(_lines()).rstrip("\n") + "\n")


def schema_text() -> str:
    """Return the text of the JSON Schema of `status -o json`."""
    return json.dumps(schema(), indent=2) + "\n"


def explained(diagnosis: Diagnosis[Any]) -> tuple[str, str, str]:
    """Return what a diagnosis shows, why it hurts, and the source, from its docstring."""
    paragraphs = [
        " ".join(part.split()) for part in (diagnosis.check.__doc__ or "").strip().split("\n\n")
    ]
    return paragraphs[0], " ".join(paragraphs[1:-1]), paragraphs[-1]


def _lines() -> Iterator[str]:
    yield INTRODUCTION.format(count=len(DIAGNOSES))
    yield "| diagnosis | level | shown | problem |\n|---|---|---|---|"
    for each in DIAGNOSES:
        yield f"| [{each.id}](#{each.id}) | {each.level} | {_counts(each)} | {explained(each)[0]} |"
    yield ""
    examples = samples()
    for diagnosis in DIAGNOSES:
        yield from _diagnosis(diagnosis, examples[diagnosis.id])


def _diagnosis(diagnosis: Diagnosis[Any], sample: Sample) -> Iterator[str]:
    what, why, source = explained(diagnosis)
    yield f"## {diagnosis.id}\n"
    yield f"**{diagnosis.level}**, {_counts(diagnosis)} · {what}\n"
    yield f"{why}\n"
    yield f"Source: {source}\n"
    if consequences := EXPLAINS.get(diagnosis.id):
        listed = ", ".join(f"[{each}](#{each})" for each in consequences)
        yield f"Its consequences are not shown: {listed}.\n"
    trouble = next(
        each for each in sample.scene().examined().every_trouble if each.id == diagnosis.id
    )
    yield f"Example: {trouble.message}\n"
    yield f"Fix: {trouble.remedy}.\n\n```sh\n{trouble.command}\n```\n"
    if trouble.change is not None:
        yield f"This {trouble.change.does}:\n\n```sh\n{trouble.change.command}\n```\n"


def _counts(diagnosis: Diagnosis[Any]) -> str:
    return f"after {diagnosis.seconds:.0f} s" if diagnosis.seconds else "at once"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
