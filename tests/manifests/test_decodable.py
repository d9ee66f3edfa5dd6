"""The policy in the API server covers every field that Go may be unable to decode."""

import re
from collections.abc import Iterator

import pytest

from tests.harness.ray_objects import undecodable, with_amount
from tests.manifests.render import helm, one
from tests.schema.release import TABLE
from webhook.validation.crd import schema_of

pytestmark = pytest.mark.manifests

KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
TYPES = ("int32", "int-or-string", "quantity")
AMOUNTS = (
    "4", "500m", "1.5Gi", "1E", "2Ei", "1e3", "1E+3", "1e-9", "1e99", "1e0000000000000000003",
    "1e1.5", "1e.5", "1e100", "1e-999999999", "1E+50000000",
)  # fmt: skip
PODS = ("template.spec", "submitterPodTemplate.spec")


def expressions() -> str:
    """Return all expressions of the policy as one text without spaces."""
    spec = one(helm(), "ValidatingAdmissionPolicy")["spec"]
    return "".join(
        "".join(each["expression"].split()) for each in (*spec["variables"], *spec["validations"])
    )


def limited(kind: str) -> Iterator[tuple[str, str]]:
    """Yield path and type of what Go decodes into less than the CRD allows."""
    schema = schema_of(None)

    def below(name: str | int, path: str) -> Iterator[tuple[str, str]]:
        part = schema.part(name)
        if part.type in TYPES:
            yield path, part.type
        entries = part.list if part.list is not None else part.map
        if entries is not None:
            yield from below(entries, path)
        for field, each in (part.fields or {}).items():
            yield from below(each, f"{path}.{field}")

    return below(schema.roots[f"v1/{kind}"], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_names_the_way_to_every_port(kind: str) -> None:
    text = expressions()
    found = sorted(path for path, of in limited(kind) if of == "int-or-string")
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


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_names_each_field_on_the_way_to_every_number_and_quantity(kind: str) -> None:
    named = set(re.findall(r"\.\??(\w+)", expressions()))
    found = [path for path, of in limited(kind) if of != "int-or-string"]
    assert len(found) > 200
    for path in found:
        assert set(path.split(".")[1:]) <= named, path


def test_the_policy_takes_the_quantities_that_the_rule_takes() -> None:
    patterns = re.findall(r"matches\('(.*?)'\)", expressions())
    assert len(patterns) == expressions().count("matches(")
    for amount in AMOUNTS:
        (taken,) = {bool(re.search(each, amount)) for each in patterns}
        assert taken is not undecodable("RayCluster", with_amount(amount)), amount


def test_the_table_is_small() -> None:
    assert len(TABLE.read_text()) < 60_000
