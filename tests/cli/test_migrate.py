"""`ray-webhook migrate`: all steps of the migration from Google's webhook for TPUs."""

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests import former
from tests.builders import Object, manifest
from tests.diagnostics.scenes import CREATED, Scene
from tests.diagnostics.served import Server, serving
from webhook.api import names
from webhook.cli.main import main
from webhook.diagnostics.installation_problems import PREVIOUS, second_webhook
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

Capture = pytest.CaptureFixture[str]
Migrate = Callable[..., tuple[int, str]]
Way = Callable[..., Object]
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


def answering(server: Server, *, validating: bool = True, left: bool = True) -> None:
    server.answers |= {
        VALIDATING: {"items": [configuration("validating")] if validating else []},
        DEPLOYMENTS: {"items": [deployment()] if left else []},
        SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]},
    }


def ours(policy: str = "Ignore", bundle: str = BUNDLE) -> Object:
    found: Object = Scene().webhooks[0]
    for entry in found["webhooks"]:
        entry["failurePolicy"] = policy
        entry["clientConfig"]["caBundle"] = bundle
    return found


@pytest.fixture
def migrate(tmp_path: Path, capsys: Capture) -> Migrate:
    """Run the command on a scene, after a change of the server, and return status and output."""

    def run(
        scene: Scene, *flags: str, change: Callable[[Server], object] = answering
    ) -> tuple[int, str]:
        with serving(scene, tmp_path) as (server, kubeconfig):
            answering(server)
            change(server)
            status = main(["migrate", "--from", PREVIOUS, "--kubeconfig", str(kubeconfig), *flags])
        return status, capsys.readouterr().out

    return run


@pytest.fixture
def way(migrate: Migrate) -> Way:
    def run(scene: Scene, *, validating: bool = True, left: bool = True) -> Object:
        change = partial(answering, validating=validating, left=left)
        status, out = migrate(scene, "-o", "json", change=change)
        data: Object = json.loads(out)
        assert status == (0 if data["done"] else 1)
        return data

    return run


def states(data: Object) -> dict[str, str]:
    """Return the state of each step."""
    return {step["id"]: step["state"] for step in data["steps"]}


def test_the_way_leads_from_step_to_step_until_nothing_is_left(way: Way) -> None:
    scene = a_former_scene()
    order = ["install", "unregister", "remove", "restart", "fail-closed"]

    def with_cluster(**there: bool) -> dict[str, str]:
        found = states(way(scene, **there))
        assert list(found) == order
        return found

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


def test_pods_of_the_former_webhook_are_adopted_as_they_are(way: Way) -> None:
    (group,) = way(a_former_scene())["groups"]
    assert (group["adopted"], group["carried"], group["restart"]) == (8, 0, "")


def test_commands_name_what_is_there(way: Way) -> None:
    scene = a_former_scene()
    scene.webhooks += [ours()]
    steps = {step["id"]: step for step in way(scene)["steps"]}
    assert steps["unregister"]["commands"] == [
        "kubectl delete mutatingwebhookconfiguration kuberay-tpu-mutating-webhook-cfg",
        "kubectl delete validatingwebhookconfiguration kuberay-tpu-validating-webhook-cfg",
    ]
    assert steps["remove"]["commands"] == [
        f"kubectl delete -n ray-system deployment,service,serviceaccount {PREVIOUS}"
    ]
    assert steps["install"]["commands"] == []


def test_what_helm_installed_is_uninstalled_by_helm(migrate: Migrate) -> None:
    release = {"meta.helm.sh/release-name": "tpu", "meta.helm.sh/release-namespace": "default"}
    answer = {DEPLOYMENTS: {"items": [deployment(**release)]}}
    _, out = migrate(a_former_scene(), change=lambda server: server.answers.update(answer))
    assert "helm uninstall tpu -n default" in out


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda scene: scene.told("llama-tpu-worker-1", TPU_WORKER_ID="0"),
            "llama-tpu-worker-0 and llama-tpu-worker-1 both are host 0",
        ),
        (
            lambda scene: scene.changed(
                "llama-tpu-worker-1", metadata={"labels": {"replicaIndex": None}}
            ),
            "1 pod has no identity, the first is llama-tpu-worker-1",
        ),
        (
            lambda scene: scene.changed("llama-tpu-worker-1", spec={"subdomain": "ama-headless"}),
            "llama-tpu-worker-1 is found under ama-headless",
        ),
    ],
)
def test_a_group_that_cannot_be_adopted_is_created_anew(
    way: Way, change: Callable[[Scene], object], why: str
) -> None:
    scene = a_former_scene()
    change(scene)
    data = way(scene)
    (group,) = data["groups"]
    assert why in group["restart"]
    assert states(data)["restart"] == "later"
    (step,) = (step for step in data["steps"] if step["id"] == "restart")
    assert step["commands"] == [
        "kubectl delete pod -n team -l ray.io/cluster=llama,ray.io/group=tpu"
    ]


def test_what_may_not_be_read_is_said_and_is_no_step_that_is_done(migrate: Migrate) -> None:
    scene = a_former_scene()
    scene.webhooks = [ours()]
    status, out = migrate(
        scene, "-o", "json", change=lambda server: server.refused.update({VALIDATING, DEPLOYMENTS})
    )
    data = json.loads(out)
    assert status == 1
    assert data["unread"] == {
        "validatingwebhookconfigurations": "forbidden",
        "deployments": "forbidden",
    }
    assert states(data)["unregister"] == "next"


def test_it_waits_for_the_next_step_and_no_longer(migrate: Migrate) -> None:
    status, out = migrate(a_former_scene(), "--wait", "1s")
    assert status == 1
    assert "8 pods are adopted as they are" in out
    assert "4 steps left" in out


def test_it_is_the_webhook_that_status_complains_of() -> None:
    scene = a_former_scene()
    scene.webhooks += [ours()]
    (symptom,) = second_webhook(scene.observed().configurations or ())
    assert f"migrate --from {PREVIOUS}" in symptom.remedy


def test_adopted_pods_are_fine_to_status() -> None:
    scene = a_former_scene()
    scene.webhooks = [ours("Fail")]
    assert scene.ids() == ["head-missing"]


def test_only_a_webhook_that_is_known_can_be_left(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["migrate", "--from", "another"])
    assert PREVIOUS in capsys.readouterr().err
