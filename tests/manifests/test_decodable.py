"""The policy in the API server speaks of every field that may be a number or a string."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.schema.generate import TABLE
from webhook.validation.crd import schema_of

POLICY = Path(__file__).parents[2] / "manifests" / "base" / "decodable.yaml"
KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
PODS = ("template.spec", "submitterPodTemplate.spec")


def expressions() -> str:
    """Return all expressions of the policy as one text without spaces."""
    policy, _ = yaml.safe_load_all(POLICY.read_text())
    spec = policy["spec"]
    return "".join(
        "".join(each["expression"].split()) for each in (*spec["variables"], *spec["validations"])
    )


def ports(kind: str) -> Iterator[str]:
    """Yield the paths of a kind that may be a number or a string, lists and maps unmarked."""
    schema = schema_of(None)

    def below(name: str | int, path: str) -> Iterator[str]:
        part = schema.part(name)
        if part.type == "int-or-string":
            yield path
        entries = part.list if part.list is not None else part.map
        if entries is not None:
            yield from below(entries, path)
        for field, each in (part.fields or {}).items():
            yield from below(each, f"{path}.{field}")

    return below(schema.roots[f"v1/{kind}"], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_names_the_way_to_every_port(kind: str) -> None:
    text = expressions()
    found = sorted(ports(kind))
    assert len(found) > 50
    for path in found:
        *_, handler, port = path.split(".")
        assert f"?{port}." in text, path
        if "ontainers." in path:
            assert f"h.?{handler}.?{port}" in text, path
            hook = path.split("ontainers.")[1].split(".")
            way = ".?".join(hook[: hook.index(handler)])
            assert f"c.?{way}.orValue" in text, path
            assert any(pod in path for pod in PODS), path
        else:
            assert any(each in path for each in ("headService", "serveService", "networkPolicy"))


def test_the_table_is_small_and_says_what_made_it() -> None:
    text = TABLE.read_text()
    assert len(text) < 60_000
    assert "python -m tests.schema.generate" in text
