"""Zone and region of Ray nodes: enabled by the API server's release or by a setting."""

from pathlib import Path
from typing import Literal

import pytest

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import RAYCLUSTERS, FakeApi
from tests.harness.objects import a_pod
from tests.harness.publishing import a_cluster
from tests.webhook.app.test_scheduling import INSTALLED, patch_of, serving
from webhook.api import names
from webhook.config.configuration import Topology
from webhook.groups.annotations import WORKER_GROUP


@pytest.mark.parametrize(("minor", "zones", "expected"), [
    ("35", "auto", True), ("37+", "auto", True), ("34", "auto", False), ("", "auto", False),
    ("37", "off", False), ("34", "on", True),
])  # fmt: skip
async def test_ray_receives_where_the_api_server_knows_it_unless_a_switch_says_otherwise(
    tmp_path: Path, minor: str, zones: Literal["auto", "on", "off"], expected: bool
) -> None:
    async with (
        FakeApi(minor=minor).serving() as api,
        serving(api, tmp_path, INSTALLED, Topology(zones=zones)) as served,
    ):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await served.until_ready()
        review = pod_review(a_pod("", group="tpu"), dry_run=True)
        found = str(patch_of(await served.post("/mutate", review)))
        for name in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION):
            assert (name in found) is expected
