"""From `helm install` to `helm uninstall`: workers that cannot run without the webhook are refused
while it does not answer, other Ray pods are not, and each command of Helm works during an outage.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.e2e.api import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    RAY_CLUSTERS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.installation import NAMESPACE, run_helm, try_helm
from tests.e2e.rays import slices, worker_of
from tests.e2e.waiting import Repeated, until
from tests.manifests.render import CHART
from tests.pages.blocks import kubectl_words
from tests.release.build import packed
from webhook import __version__

pytestmark = pytest.mark.e2e

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/ray-webhook-decodable"
CLOSED = {"pods.admission.ray.io", "shards.admission.ray.io"}


def closed(plane: ControlPlane) -> set[str]:
    return {
        entry["name"]
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for entry in plane.api.get(kind, "ray-webhook")["webhooks"]
        if entry["failurePolicy"] == "Fail"
    }


HEAD = {"ray.io/node-type": "head"}
WORKER = {"ray.io/node-type": "worker"}


def refused(plane: ControlPlane, namespace: str, labels: Mapping[str, str] = WORKER) -> bool:
    """Return whether a pod is refused because the webhook cannot be called, by a dry run."""
    pod = {
        "metadata": {"name": "pod", "labels": labels},
        "spec": {"containers": [{"name": "ray", "image": "ray"}]},
    }
    return "failed calling webhook" in plane.api.refusal(PODS, pod, namespace)


def label(plane: ControlPlane, namespace: str, start: str) -> None:
    plane.run_kubectl(*kubectl_words(start, NAMESPACE=namespace, TEAM=namespace))


def exists(plane: ControlPlane, kind: Resource, namespace: str | None = None) -> bool:
    return plane.api.ok(kind.path(namespace, "ray-webhook"))


def image(plane: ControlPlane) -> str:
    deployment = plane.api.get(DEPLOYMENTS, "ray-webhook", NAMESPACE)
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def test_each_command_of_helm_works_with_the_webhook_and_without_it(
    plane: ControlPlane, program: str
) -> None:
    def call(command: str, *words: str) -> None:
        run_helm(plane, command, "ray-webhook", *words, program=program)

    def upgrade(values: str) -> None:
        call("upgrade", str(CHART), "--reset-then-reuse-values", "--set", values)

    team = plane.namespace("team")
    call("install", str(CHART), "--create-namespace")
    assert closed(plane) == CLOSED
    until(lambda: refused(plane, team), "nothing answers")
    assert not refused(plane, team, HEAD)

    with Deployed(plane):
        until(lambda: not refused(plane, team), "the API server trusts the webhook")
        worker = worker_of(plane.api.create(RAY_CLUSTERS, slices("llama", 1), team))
        stored = plane.api.create(PODS, worker, team, dryRun="All")
        assert "ray.io/replica-host-index" in stored["metadata"]["labels"]
        first = image(plane)
        upgrade("image.tag=does-not-exist")
        assert image(plane) != first

    until(lambda: refused(plane, team), "nothing answers")
    label(plane, team, "kubectl label namespace NAMESPACE")
    until(lambda: not refused(plane, team), "the namespace is exempt")
    plane.run_kubectl("label", "namespace", team, "admission.ray.io/ignore-")
    upgrade("optIn.enabled=true")
    until(lambda: not refused(plane, team), "no namespace has opted in")
    label(plane, team, "kubectl label namespace TEAM")
    until(lambda: refused(plane, team), "the namespace has opted in")
    call("rollback", "1")
    assert image(plane) == first
    assert closed(plane) == CLOSED
    upgrade("mutating.failClosed=all")
    until(lambda: refused(plane, team, HEAD), "every Ray pod is refused")
    upgrade("mutating.failurePolicy=Ignore")
    assert closed(plane) == set()
    until(lambda: not refused(plane, team), "the API server has taken the entries in")
    call("rollback", "1")
    until(lambda: refused(plane, team), "the API server has taken the entries in")
    assert not refused(plane, team, HEAD)


def chart_of_before(folder: Path) -> Path:
    """Return the chart as a release before packaged it: of another version, without the policy that
    this one has, its value and its schema.
    """
    chart = folder / "ray-webhook"
    shutil.copytree(CHART, chart)
    about, values = yaml.safe_load((CHART / "Chart.yaml").read_text()), chart / "values.yaml"
    about |= {"version": "0.0.1", "appVersion": "0.0.1"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about))
    older = yaml.safe_load(values.read_text())
    del older["decodablePolicy"]
    values.write_text(yaml.safe_dump(older))
    schema = json.loads((chart / "values.schema.json").read_text())
    schema["required"].remove("decodablePolicy")
    del schema["properties"]["decodablePolicy"]
    (chart / "values.schema.json").write_text(json.dumps(schema))
    (chart / "templates" / "decodable.yaml").unlink()
    archive = folder / "before.tgz"
    archive.write_bytes(packed(chart, 0))
    return archive


def test_an_upgrade_from_the_release_before_keeps_values_takes_new_defaults_and_refuses_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    team = plane.namespace("team")
    own = ("--create-namespace", "--set", "replicas=1,config.log.admissions=denied")
    run_helm(plane, "install", "ray-webhook", str(chart_of_before(tmp_path)), *own)
    assert not plane.api.ok(POLICY)
    with Deployed(plane):
        until(lambda: not refused(plane, team), "the API server trusts the webhook")
        refusals: list[bool] = []
        with Repeated(lambda: refusals.append(refused(plane, team)), 0):
            run_helm(plane, "upgrade", "ray-webhook", str(CHART), "--reset-then-reuse-values")
        assert refusals
        assert not any(refusals)
        assert closed(plane) == CLOSED
    assert plane.api.ok(POLICY)
    deployment = plane.api.get(DEPLOYMENTS, "ray-webhook", NAMESPACE)
    assert deployment["spec"]["replicas"] == 1
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == __version__
    settings = plane.api.get(CONFIG_MAPS, "ray-webhook-settings", NAMESPACE)["data"]
    assert "admissions: denied" in settings["settings.yaml"]


@pytest.mark.parametrize("running", [True, False])
def test_an_uninstall_removes_the_configurations_before_the_webhook(
    plane: ControlPlane, program: str, *, running: bool
) -> None:
    team = plane.namespace("team")
    run_helm(plane, "install", "ray-webhook", str(CHART), "--create-namespace", program=program)
    with ExitStack() as stack:
        if running:
            stack.enter_context(Deployed(plane))
        until(lambda: refused(plane, team) != running, "the API server has taken the entries in")
        left: list[str] = []

        def look() -> None:
            if not exists(plane, DEPLOYMENTS, NAMESPACE):
                kinds = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
                left.extend(kind.plural for kind in kinds if exists(plane, kind))

        with Repeated(look, 0):
            run_helm(plane, "uninstall", "ray-webhook", program=program)
    assert left == []
    assert not exists(plane, MUTATING_WEBHOOKS)
    assert not exists(plane, VALIDATING_WEBHOOKS)
    until(lambda: not refused(plane, team), "the API server has taken in that nothing is asked")


def test_without_cert_manager_its_mode_is_refused_in_one_sentence(plane: ControlPlane) -> None:
    plane.namespace(NAMESPACE)
    done = try_helm(
        plane, "install", "ray-webhook", str(CHART), "--set", "certificates.source=cert-manager"
    )
    assert done.returncode != 0
    assert "the cluster does not serve cert-manager.io/v1: install cert-manager" in done.stderr
    assert "no matches for kind" not in done.stderr
