"""Affinity, the claim of a ComputeDomain, the PodGroup, and Ray node labels of the location."""

import json
from typing import Any

import pytest

from tests.builders import (
    NAMESPACE,
    ClusterBuilder,
    Decided,
    Object,
    PodBuilder,
    Webhook,
    a_cluster,
    a_pod,
    container_of,
    decide,
    env_names,
    env_of,
    uid_of,
)
from webhook.admission.codec import WARNING_MAX
from webhook.api import names
from webhook.groups.scheduling_groups import digest
from webhook.mutation.ray_pod import Policy

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KINDS = ("podAffinity", "podAntiAffinity")
AFFINE = a_cluster("c").group("g", hosts=2).group("single")


def a_worker(group: str = "g") -> PodBuilder:
    return a_pod().of("c").worker(group)


def a_host() -> PodBuilder:
    return a_worker().identity(0, 0, "g-xh3hf")


def a_head() -> PodBuilder:
    return a_pod().of("c").head()


def terms(pod: Object, kind: str) -> list[Object]:
    found: list[Object] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return found


def topology_keys(pod: Object) -> set[str]:
    return {term["topologyKey"] for kind in KINDS for term in terms(pod, kind)}


def matches(term: Object, namespace: str, labels: dict[str, str]) -> bool:
    """Return whether a term of a pod in NAMESPACE selects a pod, as the scheduler does."""
    if term.get("namespaceSelector") != {} and namespace != NAMESPACE:
        return False
    selector = term["labelSelector"]
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key = expression["key"]
    if expression["operator"] == "Exists":
        return key in labels
    assert expression["operator"] in {"In", "NotIn"}
    return (labels.get(key) in expression["values"]) is (expression["operator"] == "In")


WORKER = {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}
SAME = {**WORKER, names.LABEL_CLUSTER: "c", names.LABEL_REPLICA_NAME: "g-xh3hf"}
OTHERS = [
    (NAMESPACE, {**SAME, names.LABEL_REPLICA_NAME: "g-b2c4d"}),
    (NAMESPACE, {**SAME, names.LABEL_CLUSTER: "other"}),
    ("elsewhere", {**SAME, names.LABEL_CLUSTER: "other", names.LABEL_REPLICA_NAME: "x-b2c4d"}),
]
STRANGERS = [
    (NAMESPACE, {"app": "web"}), (NAMESPACE, {names.LABEL_CLUSTER: "c"}), ("elsewhere", {}),
    ("elsewhere", {**SAME, names.LABEL_CLUSTER: "d", names.LABEL_NODE_TYPE: "head"}),
    ("elsewhere", {names.LABEL_CLUSTER: "d", names.LABEL_REPLICA_NAME: "x"}),
]  # fmt: skip


def test_a_host_wants_to_be_with_its_replica_and_with_no_other() -> None:
    pod = decide(a_host().tpu(4), AFFINE).pod
    together, apart = terms(pod, "podAffinity"), terms(pod, "podAntiAffinity")
    assert all(matches(term, NAMESPACE, SAME) for term in together)
    assert not any(matches(term, NAMESPACE, SAME) for term in apart)
    for namespace, labels in OTHERS:
        assert not all(matches(term, namespace, labels) for term in together)
        assert any(matches(term, namespace, labels) for term in apart), labels
    for namespace, labels in STRANGERS:
        assert not any(matches(term, namespace, labels) for term in apart), labels


def test_the_first_host_of_a_replica_matches_its_own_term() -> None:
    pod = decide(a_worker().tpu(4), AFFINE).pod
    (term,) = terms(pod, "podAffinity")
    assert matches(term, NAMESPACE, pod["metadata"]["labels"])


@pytest.mark.parametrize("affinity", [
    {}, None, {"podAffinity": None}, {"podAffinity": {}}, {"podAntiAffinity": {REQUIRED: None}},
    {"podAffinity": {REQUIRED: []}},
])  # fmt: skip
def test_an_affinity_that_says_nothing_is_filled(affinity: Object | None) -> None:
    pod = decide(a_host().tpu(4).spec(affinity=affinity), AFFINE).pod
    assert (len(terms(pod, "podAffinity")), len(terms(pod, "podAntiAffinity"))) == (1, 2)


@pytest.mark.parametrize(("pod", "default"), [
    (a_worker().gpu(8), set()), (a_worker(), set()),
    (a_host().tpu(4), {names.NODE_POOL}),
])  # fmt: skip
def test_only_tpu_replicas_have_terms_without_a_key(pod: PodBuilder, default: set[str]) -> None:
    assert topology_keys(decide(pod, AFFINE).pod) == default
    opted = a_cluster("c").group("g", hosts=2).opting(topology_key="nvidia.com/gpu.clique")
    assert topology_keys(decide(pod, opted).pod) == {"nvidia.com/gpu.clique"}


@pytest.mark.parametrize("key", ["a/b/c", "-x", "a b", "x" * 64])
def test_a_topology_key_that_is_no_label_key_is_a_warning_and_gives_no_affinity(key: str) -> None:
    decided = decide(a_host().tpu(4), a_cluster("c").group("g", hosts=2).opting(topology_key=key))
    assert "affinity" not in decided.pod["spec"]
    (warning,) = decided.answer.warnings
    assert names.ANNOTATION_TOPOLOGY_KEY in warning


def test_a_single_host_gets_none() -> None:
    assert "affinity" not in decide(a_worker("single").tpu(4), AFFINE).pod["spec"]


def test_a_policy_may_keep_replicas_apart_only_from_those_of_their_namespace() -> None:
    apart = terms(decide(a_host().tpu(4), AFFINE, Policy(apart="own")).pod, "podAntiAffinity")
    other = {**SAME, names.LABEL_CLUSTER: "other"}
    assert any(matches(term, NAMESPACE, other) for term in apart)
    assert not any(matches(term, "elsewhere", other) for term in apart)


ASK_DOMAIN = names.ANNOTATION_COMPUTE_DOMAIN
UID = digest(uid_of("c"))
GPU = {"limits": {"nvidia.com/gpu": 4}}
TEMPLATE = {"spec": {"containers": [{"name": "ray-worker", "resources": GPU}]}}
NODE_TERM = {
    "labelSelector": {"matchExpressions": [
        {"key": ASK_DOMAIN, "operator": "Exists"},
        {"key": names.LABEL_NODE_TYPE, "operator": "In", "values": ["head", "worker"]}]},
    "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}}  # fmt: skip


def with_domains(scope: str, template: Object = TEMPLATE) -> ClusterBuilder:
    """Return a RayCluster with a group of two hosts and one of single hosts, all with GPUs, and one
    without, that asks for ComputeDomains.
    """
    cluster = a_cluster("c").head(containers=[{"name": "ray-head", "resources": GPU}])
    cluster.group("g", hosts=2, replicas=2, template=template).group("cpu")
    return cluster.group("single", replicas=16, template=template).annotated(ASK_DOMAIN, scope)


def template_of(decided: Decided) -> str | None:
    claims = decided.pod["spec"].get("resourceClaims", [])
    templates = {each["name"]: each["resourceClaimTemplateName"] for each in claims}
    return templates.get(names.CLAIM_COMPUTE_DOMAIN)


def claims_of(decided: Decided, container: str = "ray-worker") -> list[str]:
    resources = container_of(decided.pod, container).get("resources", {})
    return [each["name"] for each in resources.get("claims", [])]


@pytest.mark.parametrize(("scope", "head", "host", "single"), [
    ("cluster", f"c-all-{UID}", f"c-all-{UID}", f"c-all-{UID}"),
    ("worker-group", None, f"c-worker-g-{UID}", f"c-worker-single-{UID}"),
    ("replica", None, "c-worker-g-xh3hf", None),
])  # fmt: skip
def test_pods_share_one_domain(scope: str, head: str | None, host: str, single: str | None) -> None:
    pods = a_head().gpu(4), a_host().gpu(4), a_worker("single").gpu(4)
    assert [template_of(decide(pod, with_domains(scope))) for pod in pods] == [head, host, single]


def test_a_cluster_that_is_made_anew_has_other_domains() -> None:
    new, pod = with_domains("worker-group").build(), a_worker("single").gpu(4).build()
    new["metadata"]["uid"] = pod["metadata"]["ownerReferences"][0]["uid"] = "another-uid"
    assert template_of(decide(pod, new)) == f"c-worker-single-{digest('another-uid')}"
    assert digest("another-uid") != UID


@pytest.mark.parametrize("scope", ["cluster", "worker-group", "replica", "pods", ""])
def test_pods_without_gpus_are_in_no_domain(scope: str) -> None:
    pod = a_worker("cpu")
    assert template_of(decide(pod, with_domains(scope))) is None


def test_containers_with_gpus_have_the_claim_and_others_do_not() -> None:
    pod = a_host().gpu(4).container("logs").init("warm", resources=GPU)
    found = decide(pod, with_domains("replica"))
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
    pod = a_worker("single").spec(resourceClaims=claims).container("logs").build()
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}, {"name": "roce"}]}
    found = decide(pod, with_domains("worker-group", template))
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
    pod = a_host().gpu(4).spec(resourceClaims=claims)
    found = decide(pod, with_domains("replica", template))
    assert found.pod["spec"]["resourceClaims"] == claims
    assert NODE_TERM not in terms(found.pod, "podAntiAffinity")


def test_pods_of_domains_are_labelled_and_never_share_a_node() -> None:
    found = decide(a_worker("single").gpu(4), with_domains("worker-group"))
    assert found.pod["metadata"]["labels"][names.LABEL_COMPUTE_DOMAIN] == "worker-group"
    assert terms(found.pod, "podAntiAffinity") == [NODE_TERM]
    own = decide(
        a_worker("single").gpu(4), with_domains("worker-group"), policy=Policy(apart="own")
    )
    expected = {k: v for k, v in NODE_TERM.items() if k != "namespaceSelector"}
    assert terms(own.pod, "podAntiAffinity") == [expected]


def test_without_a_keeper_pods_come_up_without_a_domain_and_are_warned() -> None:
    policy = Policy(no_domains="no one keeps them")
    found = decide(a_host().gpu(4), with_domains("replica"), policy)
    assert template_of(found) is None
    assert names.LABEL_COMPUTE_DOMAIN not in found.pod["metadata"]["labels"]
    assert found.answer.warnings == ("no ComputeDomain: no one keeps them",)


ASK = names.ANNOTATION_SCHEDULING_GROUP
RESPONDERS = [{"name": "drain.example.com"}]


def asking(granularity: str) -> ClusterBuilder:
    """Return a RayCluster with groups of two hosts and single hosts, that asks for a gang."""
    return (
        a_cluster("c").group("g", hosts=2, replicas=2).group("single").annotated(ASK, granularity)
    )


def group_of(decided: Decided) -> str | None:
    found: str | None = decided.pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return found


@pytest.mark.parametrize(("granularity", "head", "host", "single"), [
    ("cluster", "c-all", "c-all", "c-all"),
    ("worker-group", "c-head", "c-worker-g", "c-worker-single"),
    ("replica", None, "c-worker-g-xh3hf", None),
])  # fmt: skip
def test_each_granularity_names_its_pod_groups(
    granularity: str, head: str | None, host: str, single: str | None
) -> None:
    cluster = asking(granularity)
    pods = a_head(), a_host(), a_worker("single")
    assert [group_of(decide(pod, cluster)) for pod in pods] == [head, host, single]


def test_hosts_of_an_assigned_replica_share_a_pod_group_that_no_other_replica_has() -> None:
    webhook = Webhook(asking("replica").build())
    found = [group_of(webhook.admit(a_worker().build())) for _ in range(4)]
    assert found[0] == found[1] != found[2] == found[3]
    assert None not in found


DEFAULT, NOT_SERVED, UNPUBLISHED = Policy(), Policy(pod_groups=False), Policy(published=False)


@pytest.mark.parametrize(("spec", "cluster", "policy", "group", "warning"), [
    ({}, a_cluster("c").group("g", hosts=2), DEFAULT, None, ""),
    ({}, asking("replica").spec(enableInTreeAutoscaling=True), DEFAULT, "c-worker-g-xh3hf", ""),
    ({"evictionResponders": RESPONDERS}, asking("worker-group"), DEFAULT, None,
     "evictionResponders"),
    ({"schedulerName": "volcano"}, asking("worker-group"), DEFAULT, None, "volcano"),
    ({}, asking("worker-group"), NOT_SERVED, None, "serves no PodGroups"),
    ({}, asking("worker-group"), UNPUBLISHED, "c-worker-g", "c-worker-g"),
], ids=["not asked", "autoscaled", "responders", "scheduler", "unserved", "alone"])  # fmt: skip
def test_a_host_has_its_pod_group_or_a_warning_and_all_else(
    spec: Object, cluster: ClusterBuilder, policy: Policy, group: str | None, warning: str
) -> None:
    decided = decide(a_host().spec(**spec), cluster, policy)
    assert (group_of(decided), decided.pod["spec"]["hostname"]) == (group, "g-0-0")
    assert [warning in text for text in decided.answer.warnings] == [True] * bool(warning)


@pytest.mark.parametrize("cluster", [
    asking("cluster").label(names.LABEL_GANG, "true"),
    asking("replica").label(names.LABEL_GANG, "true"),
    asking("replica").label("volcano.sh/queue-name", "team"),
    asking("cluster").spec(enableInTreeAutoscaling=True),
    asking("everything"),
    asking("replica").head(evictionResponders=RESPONDERS),
])  # fmt: skip
def test_a_cluster_without_its_gang_has_pods_that_say_why(cluster: ClusterBuilder) -> None:
    for pod in (a_head(), a_host()):
        decided = decide(pod, cluster)
        assert group_of(decided) is None
        (warning,) = decided.answer.warnings
        assert warning.startswith("no scheduling group: ")
        assert len(warning) <= WARNING_MAX


def test_pods_that_kuberay_put_into_its_own_gang_stay_there_without_a_word() -> None:
    cluster = asking("worker-group").label(names.LABEL_GANG, "true")
    for pod in (a_head(), a_host()):
        decided = decide(pod.spec(schedulingGroup={"podGroupName": "c-cluster"}), cluster)
        assert group_of(decided) == "c-cluster"
        assert not decided.answer.warnings


def test_the_policy_may_change_while_pods_of_a_replica_come() -> None:
    webhook = Webhook(asking("worker-group").build(), policy=Policy(pod_groups=False))
    before = webhook.admit(a_worker().build())
    webhook.handler.policy = Policy(pod_groups=True)
    after = webhook.admit(a_worker().build())
    assert (group_of(before), group_of(after)) == (None, "c-worker-g")


def test_a_head_without_an_owner_or_of_an_ignored_cluster_passes_untouched() -> None:
    assert decide(a_head().orphan(), asking("cluster")).patch == []
    assert decide(a_head(), asking("cluster").label(names.LABEL_IGNORE, "true")).patch == []


def test_a_head_holds_no_identity() -> None:
    webhook = Webhook(a_cluster("c").group("headgroup").annotated(ASK, "cluster").build())
    webhook.admit(a_head().build())
    worker = webhook.admit(a_pod().of("c").worker("headgroup").build())
    assert worker.pod["metadata"]["labels"][names.LABEL_REPLICA_INDEX] == "0"


ZONES = Policy(zones=True)
ZONE = "<metadata.labels['topology.kubernetes.io/zone']>"
REGION = "<metadata.labels['topology.kubernetes.io/region']>"


def labelled(**group: Any) -> ClusterBuilder:  # noqa: ANN401 - fields of a group, as they are
    cluster = a_cluster("c").group("g", hosts=2, **group)
    return cluster.opting(replica_label="true")


def override(pod: Object) -> dict[str, str]:
    found: dict[str, str] = json.loads(env_of(pod)[names.RAY_OVERRIDE_LABELS])
    return found


@pytest.mark.parametrize("head", [True, False])
def test_the_first_container_of_heads_and_workers_knows_zone_and_region(head: bool) -> None:
    pod = a_worker().head() if head else a_worker()
    env = env_of(decide(pod, a_cluster("c").group("g"), ZONES).pod)
    assert (env[names.RAY_NODE_ZONE], env[names.RAY_NODE_REGION]) == (ZONE, REGION)


def test_without_the_policy_no_pod_gets_it() -> None:
    decided = decide(a_worker(), a_cluster("c").group("g"))
    assert env_names(decided.pod) == []


def test_a_zone_of_the_user_stays() -> None:
    pod = a_worker().env(names.RAY_NODE_ZONE, "mine")
    decided = decide(pod, a_cluster("c").group("g"), ZONES)
    found = env_of(decided.pod)
    assert (found[names.RAY_NODE_ZONE], found[names.RAY_NODE_REGION]) == ("mine", REGION)
    assert not decided.answer.warnings


def test_a_group_of_single_hosts_has_the_index_alone() -> None:
    cluster = a_cluster("c").group("g").opting(replica_label="true")
    assert override(decide(a_worker(), cluster).pod) == {names.LABEL_REPLICA_INDEX: "0"}


def test_where_kuberay_delivers_labels_of_nodes_the_webhook_adds_none() -> None:
    cluster = labelled().opting(node_labels="zone=z")
    decided = decide(a_worker().env(names.KUBERAY_NODE_LABELS, "{}"), cluster, ZONES)
    assert not {names.RAY_OVERRIDE_LABELS, names.RAY_NODE_ZONE} & {*env_names(decided.pod)}
    assert names.KUBERAY_NODE_LABELS in decided.answer.warnings[0]


CLIQUE, DOMAIN = "nvidia.com/gpu.clique", "ray.io/gpu-domain"


def test_a_label_of_the_node_becomes_a_label_of_the_ray_node() -> None:
    cluster = a_cluster("c").group("g")
    cluster.opting(node_labels=f"{CLIQUE}={DOMAIN}")
    found = decide(a_worker(), cluster).pod
    assert override(found) == {DOMAIN: f"$({names.NODE_LABEL}0)"}
    assert env_of(found)[f"{names.NODE_LABEL}0"] == f"<metadata.annotations['{CLIQUE}']>"
    listed = env_names(found)  # the kubelet fills in what comes before
    assert listed.index(f"{names.NODE_LABEL}0") < listed.index(names.RAY_OVERRIDE_LABELS)


def test_labels_of_the_node_stand_beside_those_of_the_replica_once() -> None:
    cluster = labelled().opting(node_labels=f"{CLIQUE}={DOMAIN},rack=rack")
    once = decide(a_worker(), cluster).pod
    assert override(once).keys() == {*names.IDENTITY_LABELS, DOMAIN, "rack"}
    assert decide(once, cluster).patch == []


def test_a_label_that_is_not_allowed_is_not_passed_on() -> None:
    cluster = a_cluster("c").group("g")
    cluster.opting(node_labels=f"{CLIQUE}={DOMAIN}")
    policy = Policy(node_labels=frozenset({"rack"}))
    found = decide(a_worker(), cluster, policy)
    assert names.RAY_OVERRIDE_LABELS not in env_names(found.pod)
    assert found.answer.warnings


def test_labels_of_the_user_stay_with_a_warning() -> None:
    pod = a_worker().env(names.RAY_OVERRIDE_LABELS, '{"rack": "7"}')
    decided = decide(pod, labelled())
    assert override(decided.pod) == {"rack": "7"}
    assert names.RAY_OVERRIDE_LABELS in decided.answer.warnings[0]
