"""`serve` warns of Ray objects whose pods do not fit into the quota of their namespace."""

from pathlib import Path

from tests.harness.apiserver import object_review
from tests.harness.fake_api import LIMIT_RANGES, QUOTAS, FakeApi, Request
from tests.harness.following import eventually, plain
from tests.harness.ray_objects import a_cluster
from tests.webhook.app.test_scheduling import KEPT, Object, Served, polled, serving
from webhook.cache.quota_watches import NamespaceQuotas
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.kubeclient.client import Api

FORBIDDEN = 403
CLUSTER = a_cluster().meta(namespace="default").group(hosts=4, replicas=2).build()


def quota(pods: int, name: str = "team", used: int = 0) -> Object:
    status = {"hard": {"pods": str(pods)}, "used": {"pods": str(used)}}
    spec = {"hard": status["hard"]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


async def warnings(served: Served, old: Object | None = None) -> list[str]:
    response = await served.post("/validate", object_review(CLUSTER, old=old))
    assert response["allowed"], response
    return [text for text in response.get("warnings", []) if "ResourceQuota" in text]


async def test_a_quota_is_followed(tmp_path: Path) -> None:
    async with FakeApi(served={"v1beta1"}).serving() as api:
        api.put(QUOTAS, quota(2))
        async with serving(api, tmp_path, KEPT) as served:
            await served.until_ready()
            (text,) = await polled(lambda: warnings(served), bool)
            assert text.endswith(
                "but ResourceQuota team has 2 left: need less, or raise it [quota-exceeded]"
            )
            api.put(QUOTAS, quota(1000))
            await polled(lambda: warnings(served), lambda found: not found)
            api.put(QUOTAS, quota(1000, used=999))
            await polled(lambda: warnings(served), bool)
            assert await warnings(served, old=CLUSTER) == []
            api.delete(QUOTAS, "team")
            await polled(lambda: warnings(served), lambda found: not found)


async def test_without_the_right_nothing_is_said_and_reviews_are_answered(tmp_path: Path) -> None:
    def before(request: Request) -> int:
        return FORBIDDEN if request.resource in (QUOTAS, LIMIT_RANGES) else 0

    async with FakeApi(served={"v1beta1"}, before=before).serving() as api:
        api.put(QUOTAS, quota(0))
        async with serving(api, tmp_path, KEPT) as served:
            await served.until_ready()
            await eventually(
                lambda: {QUOTAS, LIMIT_RANGES} <= {each.resource for each in api.requests}
            )
            assert await warnings(served) == []


async def test_a_namespace_stores_a_bounded_number_of_amounts() -> None:
    async with FakeApi().serving() as api, Api(plain(api)) as client:
        for index in range(33):
            api.put(QUOTAS, quota(index, f"q{index}"))
        large = quota(0, "large")
        large["status"]["hard"] = {f"count/a{index}": "1" for index in range(257)}
        api.put(QUOTAS, {**large, "metadata": {"name": "large", "namespace": "other"}})
        quotas = NamespaceQuotas(client, [], ClusterIndex(), Membership())
        for watch in quotas.watches:
            await watch.list()
        stored = quotas.limits("default")
        assert stored is not None
        assert len(stored.quotas) == 32
        assert quotas.limits("other") is None
        text = {"scopeName": "PriorityClass", "operator": "In", "values": ["x" * 16_384]}
        large["status"]["hard"] = {"pods": "1"}
        large["spec"] = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [text]}}
        api.put(QUOTAS, {**large, "metadata": {"name": "large", "namespace": "third"}})
        for watch in quotas.watches:
            await watch.list()
        assert quotas.limits("third") is None


async def test_a_namespace_whose_list_is_missing_leaves_out_no_other_one() -> None:
    async with FakeApi().serving() as api, Api(plain(api)) as client:
        api.put(QUOTAS, quota(1))
        quotas = NamespaceQuotas(client, ["default", "other"], ClusterIndex(), Membership())
        for watch in quotas.watches[:2]:
            assert quotas.limits("default") is None
            await watch.list()
        assert quotas.limits("default") is not None
        assert quotas.limits("other") is None
