"""A pod receives the claim of its ComputeDomain, and exclusive use of a node."""

from typing import Any

import pytest

from tests.builders import (
    ClusterBuilder,
    Decided,
    Object,
    PodBuilder,
    a_cluster,
    a_pod,
    container_of,
    decide,
    uid_of,
)
from webhook.api import names
from webhook.groups.scheduling_groups import digest
from webhook.mutation.ray_pod import Policy

ASK = names.ANNOTATION_COMPUTE_DOMAIN
UID = digest(uid_of("c"))
GPU = {"limits": {"nvidia.com/gpu": 4}}
TEMPLATE = {"spec": {"containers": [{"name": "ray-worker", "resources": GPU}]}}
NODE_TERM = {
    "labelSelector": {"matchExpressions": [
        {"key": ASK, "operator": "Exists"},
        {"key": names.LABEL_NODE_TYPE, "operator": "In", "values": ["head", "worker"]}]},
    "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}  # fmt: skip


def asking(scope: str, template: Object = TEMPLATE) -> ClusterBuilder:
    """Return a RayCluster with a group of two hosts and one of single hosts, all with GPUs, and one
    without, that asks for ComputeDomains.
    """
    return (
        a_cluster("c")
        .head(containers=[{"name": "ray-head", "resources": GPU}])
        .group("g", hosts=2, replicas=2, template=template)
        .group("single", replicas=16, template=template)
        .group("cpu")
        .annotated(ASK, scope)
    )


def a_host() -> PodBuilder:
    return a_pod().of("c").worker("g").identity(0, 0, "g-xh3hf").gpu(4)


def a_single() -> PodBuilder:
    return a_pod().of("c").worker("single").gpu(4)


def a_head() -> PodBuilder:
    return a_pod().of("c").head().gpu(4)


def template_of(decided: Decided) -> str | None:
    claims = decided.pod["spec"].get("resourceClaims", [])
    templates = {each["name"]: each["resourceClaimTemplateName"] for each in claims}
    return templates.get(names.CLAIM_COMPUTE_DOMAIN)


def claims_of(decided: Decided, container: str = "ray-worker") -> list[str]:
    resources = container_of(decided.pod, container).get("resources", {})
    return [each["name"] for each in resources.get("claims", [])]


def apart(decided: Decided) -> list[Any]:
    affinity = decided.pod["spec"].get("affinity", {})
    terms: list[Any] = affinity.get("podAntiAffinity", {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution", []
    )
    return terms


@pytest.mark.parametrize(("scope", "head", "host", "single"), [
    ("cluster", f"c-all-{UID}", f"c-all-{UID}", f"c-all-{UID}"),
    ("worker-group", None, f"c-worker-g-{UID}", f"c-worker-single-{UID}"),
    ("replica", None, "c-worker-g-xh3hf", None),
])  # fmt: skip
def test_pods_share_one_domain(scope: str, head: str | None, host: str, single: str | None) -> None:
    pods = a_head(), a_host(), a_single()
    assert [template_of(decide(pod, asking(scope))) for pod in pods] == [head, host, single]


def test_a_cluster_that_is_made_anew_has_other_domains() -> None:
    new, pod = asking("worker-group").build(), a_single().build()
    new["metadata"]["uid"] = pod["metadata"]["ownerReferences"][0]["uid"] = "another-uid"
    assert template_of(decide(pod, new)) == f"c-worker-single-{digest('another-uid')}"
    assert digest("another-uid") != UID


@pytest.mark.parametrize("scope", ["cluster", "worker-group", "replica", "pods", ""])
def test_pods_without_gpus_are_in_no_domain(scope: str) -> None:
    pod = a_pod().of("c").worker("cpu")
    assert template_of(decide(pod, asking(scope))) is None


def test_containers_with_gpus_have_the_claim_and_others_do_not() -> None:
    pod = a_host().container("logs").init("warm", resources=GPU)
    found = decide(pod, asking("replica"))
    assert claims_of(found) == [names.CLAIM_COMPUTE_DOMAIN]
    assert claims_of(found, "logs") == []
    (init,) = found.pod["spec"]["initContainers"]
    assert init["resources"]["claims"] == [{"name": names.CLAIM_COMPUTE_DOMAIN}]
    assert container_of(found.pod, "ray-worker")["resources"]["limits"] == {"nvidia.com/gpu": 4}


def test_where_gpus_come_by_claims_every_container_has_it_and_claims_stay() -> None:
    claims = [
        {"name": "gpus", "resourceClaimTemplateName": "four-gpus"},
        {"name": "roce", "resourceClaimTemplateName": "nics"},
    ]
    template = {"spec": {"resourceClaims": claims, "containers": [{"name": "ray-worker"}]}}
    pod = a_pod().of("c").worker("single").spec(resourceClaims=claims).container("logs").build()
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}, {"name": "roce"}]}
    found = decide(pod, asking("worker-group", template))
    mine = names.CLAIM_COMPUTE_DOMAIN
    assert found.pod["spec"]["resourceClaims"] == [
        *claims,
        {"name": mine, "resourceClaimTemplateName": f"c-worker-single-{UID}"},
    ]
    assert claims_of(found) == ["gpus", "roce", mine]
    assert claims_of(found, "logs") == [mine]


@pytest.mark.parametrize("name", ["compute-domain-channel", "imex-channel-0"])
def test_a_domain_of_the_template_stays_the_only_one(name: str) -> None:
    claims = [{"name": name, "resourceClaimTemplateName": "mine"}]
    template = {"spec": {**TEMPLATE["spec"], "resourceClaims": claims}}
    pod = a_host().spec(resourceClaims=claims)
    found = decide(pod, asking("replica", template))
    assert found.pod["spec"]["resourceClaims"] == claims
    assert NODE_TERM not in apart(found)


def test_pods_of_domains_are_labelled_and_never_share_a_node() -> None:
    found = decide(a_single(), asking("worker-group"))
    assert found.pod["metadata"]["labels"][names.LABEL_COMPUTE_DOMAIN] == "worker-group"
    assert apart(found) == [NODE_TERM]
    own = decide(a_single(), asking("worker-group"), policy=Policy(apart="own"))
    assert apart(own) == [{k: v for k, v in NODE_TERM.items() if k != "namespaceSelector"}]


def test_without_a_keeper_pods_come_up_without_a_domain_and_are_warned() -> None:
    found = decide(a_host(), asking("replica"), policy=Policy(no_domains="no one keeps them"))
    assert template_of(found) is None
    assert names.LABEL_COMPUTE_DOMAIN not in found.pod["metadata"]["labels"]
    assert found.answer.warnings == ("no ComputeDomain: no one keeps them",)
