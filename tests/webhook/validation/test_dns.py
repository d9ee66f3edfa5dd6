"""DNS policies of pods that must resolve the head and each other."""

import pytest

from tests.harness.ray_objects import Json, a_cluster, a_job, a_service, found

RULE = "host-network-dns"


@pytest.mark.parametrize(("spec", "fine"), [
    ({"hostNetwork": True}, False),
    ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, False),
    ({"hostNetwork": True, "dnsPolicy": "Default"}, False),
    ({"dnsPolicy": "Default"}, False),
    ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, True),
    ({"hostNetwork": True, "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]}}, True),
    ({"hostNetwork": False}, True),
    ({"dnsPolicy": "ClusterFirstWithHostNet"}, True),
    ({"dnsPolicy": "ClusterFirst"}, True), ({"dnsPolicy": ""}, True),
])  # fmt: skip
def test_the_policy_of_a_worker_and_of_the_head(spec: Json, fine: bool) -> None:
    at = "spec.workerGroupSpecs[0].template.spec.dnsPolicy"
    assert found(a_cluster().group().pod(**spec)) == (set() if fine else {(RULE, at)})
    head, at = a_cluster().head_pod(**spec).group(), "headGroupSpec.template.spec.dnsPolicy"
    assert found(a_job(head)) == (set() if fine else {(RULE, f"spec.rayClusterSpec.{at}")})
    assert found(a_service(head)) == (set() if fine else {(RULE, f"spec.rayClusterConfig.{at}")})
