"""KubeRay's release is that of the stored CRD; the complete CRD is read only after a change."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.fake_api import CRDS, FakeApi, Object
from tests.harness.following import beside, client_of, eventually, plain
from webhook.cache.kuberay_release import KubeRayStored
from webhook.kubeclient.discovery import Discovery
from webhook.validation.crd import Schema, releases, schema_of
from webhook.validation.finding import KubeRay

OFTEN = 0.02


def definition(release: KubeRay, generation: int = 1) -> Object:
    """Return the CRD of RayClusters of a release, without what its fields mean."""
    schema = schema_of(release)
    versions = [
        {
            "name": root.partition("/")[0],
            "schema": {"openAPIV3Schema": open_api(schema, schema.roots[root])},
        }
        for root in schema.roots
        if root.endswith("/RayCluster")
    ]
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


@asynccontextmanager
async def asking(api: FakeApi) -> AsyncIterator[list[KubeRay | None]]:
    """Ask a fake API server until the end of the block; yield what was told so far."""
    async with client_of(plain(api)) as connection:
        reported: list[KubeRay | None] = []
        discovery = Discovery(KubeRayStored(connection), OFTEN)
        discovery.subscribe(reported.append)
        async with beside(discovery.run()):
            yield reported


@pytest.mark.parametrize("release", releases())
async def test_each_release_is_known_by_its_fields(api: FakeApi, release: KubeRay) -> None:
    api.definition = definition(release)
    async with asking(api) as reported:
        await eventually(lambda: reported)
        assert reported == [release]


async def test_a_later_release_is_taken_for_the_newest_that_is_known(api: FakeApi) -> None:
    api.definition = definition(releases()[-1])
    spec_of(api.definition)["fieldOfTomorrow"] = {"type": "string"}
    async with asking(api) as reported:
        await eventually(lambda: reported)
        assert reported == [releases()[-1]]


async def test_a_crd_that_lacks_what_every_known_release_has_tells_nothing(api: FakeApi) -> None:
    api.definition = definition(releases()[-1])
    del spec_of(api.definition)["headGroupSpec"]
    async with asking(api) as reported:
        await eventually(lambda: reported)
        assert reported == [None]


async def test_all_of_the_crd_is_read_once_and_again_when_it_changed(api: FakeApi) -> None:
    def asked() -> int:
        return api.count("list", CRDS)

    api.definition = definition((1, 6))
    async with asking(api) as reported:
        await eventually(lambda: asked() > 6)
        assert (reported, api.whole_definitions) == ([(1, 6)], 1)
        api.definition = definition((1, 7), generation=2)
        await eventually(lambda: len(reported) > 1)
        seen = asked()
        await eventually(lambda: asked() > seen + 4)
        assert (reported, api.whole_definitions) == ([(1, 6), (1, 7)], 2)


async def test_a_crd_that_is_gone_tells_nothing_until_it_is_back(api: FakeApi) -> None:
    api.definition = definition((1, 5))
    async with asking(api) as reported:
        await eventually(lambda: reported == [(1, 5)])
        held, api.definition = api.definition, None
        await eventually(lambda: reported == [(1, 5), None])
        api.definition = held
        await eventually(lambda: reported == [(1, 5), None, (1, 5)])


@pytest.mark.parametrize(("status", "expected"), [(403, [None]), (500, [])])
async def test_a_request_may_fail(
    api: FakeApi, status: int, expected: list[KubeRay | None]
) -> None:
    api.definition = definition((1, 6))
    api.before = lambda request: status if request.resource == CRDS else 0
    async with asking(api) as reported:
        await eventually(lambda: api.count("list", CRDS) > 1)
        assert reported == expected
        api.before = lambda _: 0
        await eventually(lambda: reported[-1:] == [(1, 6)])
