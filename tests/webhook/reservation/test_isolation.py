"""Actions of a tenant never change the results of other groups: floods of pods that never appear,
the maximum number of groups, names of the maximum length.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count

import pytest

from tests.builders import ClusterBuilder, Object, a_cluster, a_pod, cluster_config
from tests.harness.apiserver import pod_review
from tests.harness.single_process import Lists
from tests.webhook.reservation.server import Direct, lease_store
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.api.formats import LABEL_VALUE_MAX
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import Read
from webhook.kubeclient.errors import ApiError

VICTIM_PODS = 49


class Tenants:
    """A webhook, and RayClusters of several tenants. No pod ever appears."""

    def __init__(self) -> None:
        self.lists, self.api, self.clusters = Lists(), Direct(), ClusterIndex()
        identities = self.lists.identities(Membership(), lease_store(self.api))
        self.mutation = Mutation(PodHandler(self.clusters, identities), self)
        self.uids = count()

    async def read(self, what: Read) -> None:
        """Read live: there is nothing that is not known."""

    def create(self, cluster: ClusterBuilder) -> None:
        self.clusters.put(cluster_config(cluster))

    async def admitted(self, cluster: str, group: str) -> bool:
        review = pod_review(a_pod().of(cluster).worker(group).build(), uid=f"r-{next(self.uids)}")
        body = (await self.mutation.review(json.dumps(review).encode())).body
        answer: Object = json.loads(body)["response"]
        return bool(answer["allowed"])

    async def flood(self, cluster: str, groups: Iterable[str], pods: int) -> Counter[bool]:
        """Return how many pods are admitted and denied that are created in each group."""
        tally: Counter[bool] = Counter()
        for group in groups:
            asked = [self.admitted(cluster, group) for _ in range(pods)]
            tally.update(await asyncio.gather(*asked))
        return tally

    async def victims(self) -> int:
        return (await self.flood("quiet", ["g"], VICTIM_PODS))[True]


def tenants(groups: list[str], replicas: int, clusters: Sequence[str] = ("loud",)) -> Tenants:
    """Return a quiet tenant, and one whose pods are refused by a quota after admission."""
    found = Tenants()
    found.create(a_cluster("quiet").group("g", replicas=200))
    for name in clusters:
        loud = a_cluster(name)
        for group in groups:
            loud.group(group, replicas=replicas)
        found.create(loud)
    return found


@pytest.mark.parametrize("length", [8, LABEL_VALUE_MAX - 6, LABEL_VALUE_MAX])
async def test_a_flood_of_pods_that_never_appear_denies_nobody_else(length: int) -> None:
    groups = [f"{number:02d}".ljust(length, "x") for number in range(6)]
    simulation = tenants(groups, 300)

    flood = await simulation.flood("loud", groups, 300)
    assert flood == {True: 6 * 256, False: 6 * 44}
    assert await simulation.victims() == VICTIM_PODS
    simulation.lists.time += 30
    assert await simulation.victims() == VICTIM_PODS


async def test_thousands_of_groups_deny_nobody_else() -> None:
    groups = [f"{number:04d}".ljust(57, "x") for number in range(600)]
    simulation = tenants(groups, 4, clusters=["loud", "louder"])

    floods = [simulation.flood(cluster, groups, 2) for cluster in ("loud", "louder")]
    loud, louder, victims = await asyncio.gather(*floods, simulation.victims())
    assert (loud, louder, victims) == ({True: 1200}, {True: 1200}, VICTIM_PODS)
    assert await simulation.victims() == VICTIM_PODS


async def test_a_table_that_fails_affects_its_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = tenants(["broken"], 4)
    create = Direct.create

    async def refuse(self: Direct, path: str, body: Object, deadline: float) -> bytes:
        if "broken" in str(body["metadata"]["annotations"]):
            raise ApiError("invalid", "the API server answered 422")
        return await create(self, path, body, deadline)

    monkeypatch.setattr(Direct, "create", refuse)

    with pytest.raises(Exception, match="422"):
        await simulation.admitted("loud", "broken")
    assert await simulation.victims() == VICTIM_PODS


@pytest.mark.parametrize("hosts", [1, 4])
def test_a_name_that_is_no_label_value_is_refused_before_anything_is_written(hosts: int) -> None:
    simulation = Tenants()
    long = "x" * (LABEL_VALUE_MAX + 1)
    simulation.create(a_cluster("loud").group(long, hosts=hosts, replicas=4))
    simulation.create(a_cluster(long).group("g", hosts=hosts, replicas=4))
    assert not asyncio.run(simulation.admitted("loud", long))
    assert not asyncio.run(simulation.admitted(long, "g"))
    assert simulation.api.server.leases == {}
