"""`ray-webhook migrate`: all steps of the migration from Google's webhook for TPUs."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests import former
from tests.builders import Object, manifest
from tests.cli.running import At, Ended, Run
from tests.diagnostics.scenes import CREATED, Scene
from tests.diagnostics.served import Server
from webhook.api import names
from webhook.diagnostics.installation_problems import PREVIOUS, second_webhook
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

Way = Callable[..., tuple[int, dict[str, Any]]]
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEPLOYMENTS = "/apis/apps/v1/deployments"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ray-webhook/endpointslices"
BUNDLE = base64.b64encode(b"a certificate").decode()


def a_former_scene() -> Scene:
    """Return a RayCluster whose workers the former webhook completed, and it alone is there."""
    scene = Scene()
    workers: list[Object] = []
    for document in expand(scene.cluster, as_cluster(manifest(scene.cluster))):
        if document["metadata"]["labels"][names.LABEL_NODE_TYPE] == names.NODE_TYPE_HEAD:
            continue
        pod = former.admitted(document, workers)
        name = f"llama-tpu-worker-{len(workers)}"
        pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        workers.append(pod)
    scene.pods = {pod["metadata"]["name"]: pod for pod in workers}
    scene.webhooks = [configuration("mutating")]
    return scene


def configuration(kind: str) -> Object:
    """Return one of its configurations."""
    service = {"name": PREVIOUS, "namespace": "ray-system", "path": f"/{kind[:-3]}e"}
    webhook = {
        "name": f"{PREVIOUS}.ray-system.svc",
        "clientConfig": {"service": service},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}],
        "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
    }
    return {"metadata": {"name": f"kuberay-tpu-{kind}-webhook-cfg"}, "webhooks": [webhook]}


def deployment(**annotations: str) -> Object:
    meta = {"name": PREVIOUS, "namespace": "ray-system", "annotations": annotations}
    return {"metadata": meta}


@pytest.fixture
def migrate(at: At) -> Callable[..., Ended]:
    """Run the command; without `validating` and `left`, parts of the other webhook are gone."""

    def call(
        scene: Scene,
        *arguments: str,
        validating: bool = True,
        left: bool = True,
        change: Callable[[Server], object] = lambda _: None,
    ) -> Ended:
        def answering(server: Server) -> None:
            server.answers |= {
                VALIDATING: {"items": [configuration("validating")] if validating else []},
                DEPLOYMENTS: {"items": [deployment()] if left else []},
                SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]},
            }
            change(server)

        return at(scene, "migrate", "--from", PREVIOUS, *arguments, change=answering)

    return call


@pytest.fixture
def way(migrate: Callable[..., Ended]) -> Way:
    """Return the exit status and the report in JSON."""

    def call(scene: Scene, **options: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401
        ended = migrate(scene, "-o", "json", **options)
        return ended.status, json.loads(ended.out)

    return call


def ours(policy: str = "Ignore", bundle: str = BUNDLE) -> Object:
    found: Object = Scene().webhooks[0]
    for entry in found["webhooks"]:
        entry["failurePolicy"] = policy
        entry["clientConfig"]["caBundle"] = bundle
    return found


def states(data: dict[str, Any]) -> dict[str, str]:
    """Return the state of each step."""
    return {step["id"]: step["state"] for step in data["steps"]}


def test_the_steps_follow_each_other_until_nothing_is_left(way: Way) -> None:
    scene = a_former_scene()
    order = ["install", "unregister", "remove", "restart", "fail-closed"]

    def with_cluster(**there: bool) -> dict[str, str]:
        status, data = way(scene, **there)
        assert status == (0 if data["done"] else 1)
        assert list(states(data)) == order
        return states(data)

    fine = {"restart": "done"}
    later = dict.fromkeys(order, "later")
    assert with_cluster() == later | fine | {"install": "next"}
    scene.webhooks = [configuration("mutating"), ours(bundle="")]
    assert with_cluster() == later | fine | {"install": "next"}, "it does not answer yet"
    scene.webhooks = [configuration("mutating"), ours()]
    assert with_cluster() == later | fine | {"install": "done", "unregister": "next"}
    scene.webhooks = [ours()]
    assert with_cluster() == later | fine | {"install": "done", "unregister": "next"}, "one is left"
    done = dict.fromkeys(order, "done")
    assert with_cluster(validating=False) == done | {"remove": "next", "fail-closed": "later"}
    assert with_cluster(validating=False, left=False) == done | {"fail-closed": "next"}
    scene.webhooks = [ours("Fail")]
    assert with_cluster(validating=False, left=False) == done


def test_pods_of_the_previous_webhook_are_adopted(way: Way) -> None:
    (group,) = way(a_former_scene())[1]["groups"]
    assert (group["adopted"], group["carried"], group["restart"]) == (8, 0, "")


def test_commands_name_existing_objects(way: Way) -> None:
    scene = a_former_scene()
    scene.webhooks += [ours()]
    steps = {step["id"]: step for step in way(scene)[1]["steps"]}
    assert steps["unregister"]["commands"] == [
        "kubectl delete mutatingwebhookconfiguration kuberay-tpu-mutating-webhook-cfg",
        "kubectl delete validatingwebhookconfiguration kuberay-tpu-validating-webhook-cfg",
    ]
    assert steps["remove"]["commands"] == [
        f"kubectl delete -n ray-system deployment,service,serviceaccount {PREVIOUS}"
    ]
    assert steps["install"]["commands"] == []


def test_a_release_of_helm_is_uninstalled_by_helm(migrate: Callable[..., Ended]) -> None:
    release = {"meta.helm.sh/release-name": "tpu", "meta.helm.sh/release-namespace": "default"}
    installed = {DEPLOYMENTS: {"items": [deployment(**release)]}}
    ended = migrate(a_former_scene(), change=lambda server: server.answers.update(installed))
    assert "helm uninstall tpu -n default" in ended.out


def _two_in_one_identity(scene: Scene) -> None:
    scene.told("llama-tpu-worker-1", TPU_WORKER_ID="0")


def _without_marks(scene: Scene) -> None:
    scene.changed("llama-tpu-worker-1", metadata={"labels": {"replicaIndex": None}})


def _under_a_cut_name(scene: Scene) -> None:
    scene.changed("llama-tpu-worker-1", spec={"subdomain": "ama-headless"})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_two_in_one_identity, "llama-tpu-worker-0 and llama-tpu-worker-1 both are host 0"),
        (_without_marks, "1 pod has no identity, the first is llama-tpu-worker-1"),
        (_under_a_cut_name, "llama-tpu-worker-1 is found under ama-headless"),
    ],
)
def test_a_group_that_cannot_be_adopted_is_recreated(
    way: Way, change: Callable[[Scene], None], why: str
) -> None:
    scene = a_former_scene()
    change(scene)
    data = way(scene)[1]
    (group,) = data["groups"]
    assert why in group["restart"]
    assert states(data)["restart"] == "later"
    (step,) = (step for step in data["steps"] if step["id"] == "restart")
    assert step["commands"] == [
        "kubectl delete pod -n team -l ray.io/cluster=llama,ray.io/group=tpu"
    ]


def test_a_kind_that_cannot_be_read_is_named_and_its_step_is_not_done(way: Way) -> None:
    scene = a_former_scene()
    scene.webhooks = [ours()]

    def change(server: Server) -> None:
        server.refused |= {VALIDATING, DEPLOYMENTS}

    status, data = way(scene, validating=False, left=False, change=change)
    kinds = ("validatingwebhookconfigurations", "deployments")
    assert (status, data["unread"]) == (1, dict.fromkeys(kinds, "forbidden"))
    assert states(data)["unregister"] == "next"


def test_it_waits_for_the_next_step_and_no_longer(migrate: Callable[..., Ended]) -> None:
    ended = migrate(a_former_scene(), "--wait", "1s")
    assert ended.status == 1
    assert "8 pods are adopted as they are" in ended.out
    assert "4 steps left" in ended.out


def test_it_is_the_webhook_that_status_complains_of() -> None:
    scene = a_former_scene()
    scene.webhooks += [ours()]
    (symptom,) = second_webhook(scene.observed().configurations or ())
    assert f"migrate --from {PREVIOUS}" in symptom.remedy


def test_adopted_pods_are_fine_to_status() -> None:
    scene = a_former_scene()
    scene.webhooks = [ours("Fail")]
    assert scene.ids() == ["head-missing"]


def test_only_a_known_webhook_can_be_replaced(run: Run) -> None:
    assert PREVIOUS in run("migrate", "--from", "another").err
