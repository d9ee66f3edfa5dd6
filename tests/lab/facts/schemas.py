"""Facts of KubeRay's CustomResourceDefinitions: fields, their types, and allowed values."""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from tests.lab.facts.fact import Fact, known, value
from webhook.api import names

Schema = dict[str, Any]


def facts(definitions: Sequence[bytes], ahead: str = "") -> Iterator[Fact]:
    """The facts of CustomResourceDefinitions; `ahead` says why fields may be missing."""
    found = {
        each["spec"]["names"]["kind"]: each["spec"] for each in map(yaml.safe_load, definitions)
    }
    kinds = f"{names.__name__}:RAY_KINDS"
    yield Fact(kinds, "the kinds of KubeRay", set(names.RAY_KINDS), set(found))
    for kind, spec in found.items():
        served = {version["name"] for version in spec["versions"] if version["served"]}
        yield known(
            f"{names.__name__}:RAY_VERSIONS",
            f"the served versions of {kind}",
            served,
            set(names.RAY_VERSIONS),
        )
    cluster, job = (_schema(found[kind]) for kind in (names.RAYCLUSTER_KIND, names.RAYJOB_KIND))
    yield from _values(cluster, job, ahead)


def _values(cluster: Schema, job: Schema, ahead: str) -> Iterator[Fact]:
    mode = set(at(cluster, "spec", "networkPolicy", "mode").get("enum", []))
    place = "webhook.validation.security:_OPEN"
    yield known(place, "modes of a network policy", set(value(place)), mode, ahead)
    policies = at(job, "spec", "deletionStrategy", "deletionRules", "[]", "policy").get("enum", [])
    place = "webhook.validation.deletion:_ORDER"
    yield known(place, "policies of deletion", set(value(place)), set(policies), ahead)


def at(schema: Schema, *path: str) -> Schema:
    """The schema of a field; `[]` are the items of a list. Empty where there is no such field."""
    for name in path:
        schema = (
            schema.get("items", {}) if name == "[]" else schema.get("properties", {}).get(name, {})
        )
    return schema


def _schema(spec: Schema) -> Schema:
    (found,) = (
        version["schema"]["openAPIV3Schema"] for version in spec["versions"] if version["storage"]
    )
    schema: Schema = found
    return schema
