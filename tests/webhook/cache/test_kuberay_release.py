"""KubeRay's release is that of the stored CRD; the complete CRD is read only after a change."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.harness.fake_api import FakeApi, Object
from tests.harness.following import client_of, plain
from webhook.cache.kuberay_release import KubeRayStored
from webhook.validation.crd import Schema, releases, schema_of
from webhook.validation.finding import KubeRay


def definition(release: KubeRay, generation: int = 1) -> Object:
    """Return the CRD of RayClusters of a release, without what its fields mean."""
    schema = schema_of(release)
    roots = [root for root in schema.roots if root.endswith("/RayCluster")]
    parts = {root.partition("/")[0]: open_api(schema, schema.roots[root]) for root in roots}
    versions = [{"name": name, "schema": {"openAPIV3Schema": part}} for name, part in parts.items()]
    return {
        "metadata": {"name": "rayclusters.ray.io", "uid": "a", "generation": generation},
        "spec": {"group": "ray.io", "versions": versions},
    }


def open_api(schema: Schema, name: str | int) -> dict[str, Any]:
    """Return a part of a schema as a CRD has it, as far as fields and lists go."""
    part = schema.part(name)
    if part.list is not None:
        return {"type": "array", "items": open_api(schema, part.list)}
    if part.fields is None:
        return {"description": "plain, or a map"}
    fields = {name: open_api(schema, below) for name, below in part.fields.items()}
    return {"type": "object", "properties": fields}


def spec_of(crd: Object) -> dict[str, Any]:
    (v1,) = (each for each in crd["spec"]["versions"] if each["name"] == "v1")
    fields: dict[str, Any] = v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


@pytest.fixture
async def question(api: FakeApi) -> AsyncIterator[KubeRayStored]:
    async with client_of(plain(api)) as connection:
        yield KubeRayStored(connection)


@pytest.mark.parametrize("release", releases())
async def test_each_release_is_known_by_its_fields(
    api: FakeApi, question: KubeRayStored, release: KubeRay
) -> None:
    api.definition = definition(release)
    assert await question.ask() == release


async def test_a_later_release_is_taken_for_the_newest_that_is_known(
    api: FakeApi, question: KubeRayStored
) -> None:
    api.definition = definition(releases()[-1])
    spec_of(api.definition)["fieldOfTomorrow"] = {"type": "string"}
    assert await question.ask() == releases()[-1]


async def test_a_crd_that_lacks_what_every_known_release_has_tells_nothing(
    api: FakeApi, question: KubeRayStored
) -> None:
    api.definition = definition(releases()[-1])
    del spec_of(api.definition)["headGroupSpec"]
    assert await question.ask() is None
    assert question.describe(None) == "the CRD of RayClusters is of no known release of KubeRay"


async def test_all_of_the_crd_is_read_once_and_again_when_it_changed(
    api: FakeApi, question: KubeRayStored
) -> None:
    api.definition = definition((1, 6))
    assert [await question.ask() for _ in range(3)] == [(1, 6)] * 3
    assert api.whole_definitions == 1
    api.definition = definition((1, 7), generation=2)
    assert [await question.ask() for _ in range(3)] == [(1, 7)] * 3
    assert api.whole_definitions == 2


async def test_a_crd_that_is_gone_tells_nothing_until_it_is_back(
    api: FakeApi, question: KubeRayStored
) -> None:
    known = "the CRD of RayClusters is that of KubeRay 1.5"
    missing = "RayClusters are not served: KubeRay's CRDs are missing"
    for stored in (definition((1, 5)), None, definition((1, 5))):
        api.definition = stored
        assert (found := await question.ask()) == ((1, 5) if stored else None)
        assert question.describe(found) == (known if stored else missing)
