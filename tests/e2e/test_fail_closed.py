"""From `helm install` to fail-closed operation, an upgrade and `helm uninstall`: one command each,
and no Ray pod is refused before the webhook has answered or after it is removed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml

from tests.e2e import needs
from tests.e2e.api import (
    MUTATING_WEBHOOKS,
    PODS,
    RAY_CLUSTERS,
    VALIDATING_WEBHOOKS,
    ApiError,
    Resource,
)
from tests.e2e.cert_manager import CertManager
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    ROUTING,
    Deployed,
)
from tests.e2e.helm import helm
from tests.e2e.installation import NAMESPACE
from tests.e2e.rays import slices, worker_of
from tests.e2e.waiting import until
from tests.manifests.render import CHART
from tests.release import build
from webhook import __version__

pytestmark = pytest.mark.e2e

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/ray-webhook-decodable"
CLOSED = {"pods.admission.ray.io", "shards.admission.ray.io"}


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, which reaches Services."""
    with ControlPlane(api_server_flags=[ROUTING]) as found:
        yield found


def run(plane: ControlPlane, *words: str) -> None:
    """Run helm, which has to succeed."""
    done = helm(plane, *words)
    assert done.returncode == 0, done.stderr


def closed(plane: ControlPlane) -> set[str]:
    """Return the entries that fail closed."""
    return {
        entry["name"]
        for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for entry in plane.api.get(kind, "ray-webhook")["webhooks"]
        if entry["failurePolicy"] == "Fail"
    }


def refused(plane: ControlPlane, namespace: str) -> bool:
    """Return whether a Ray pod is refused, by a dry run."""
    head = {
        "metadata": {"name": "head", "labels": {"ray.io/node-type": "head"}},
        "spec": {"containers": [{"name": "ray", "image": "ray"}]},
    }
    try:
        plane.api.create(PODS, head, namespace, dryRun="All")
    except ApiError:
        return True
    return False


def exists(plane: ControlPlane, kind: Resource, namespace: str | None = None) -> bool:
    """Return whether the object of the installation of this kind exists."""
    return plane.api.ok(kind.path(namespace, "ray-webhook"))


def test_one_command_installs_and_fails_closed_once_the_webhook_answers(
    plane: ControlPlane,
) -> None:
    team = plane.namespace("team")
    run(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    assert closed(plane) == set()
    assert not refused(plane, team)

    with Deployed(plane):
        until(lambda: closed(plane) == CLOSED, "the webhook has closed its entries")
        worker = worker_of(plane.api.create(RAY_CLUSTERS, slices("llama", 1), team))
        stored = plane.api.create(PODS, worker, team, dryRun="All")
        assert "ray.io/replica-host-index" in stored["metadata"]["labels"]
        broken = ("--reset-then-reuse-values", "--set", "image.tag=does-not-exist")
        run(plane, "upgrade", "ray-webhook", str(CHART), *broken)
        assert closed(plane) == CLOSED
        assert not refused(plane, team)

    until(lambda: refused(plane, team), "nothing answers")
    wanted = ("--reset-then-reuse-values", "--set", "mutating.failurePolicy=Ignore")
    run(plane, "upgrade", "ray-webhook", str(CHART), *wanted)
    assert closed(plane) == set()
    until(lambda: not refused(plane, team), "the API server has taken the entries in")


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
    (chart / "templates" / "decodable.yaml").unlink()
    packed = folder / "before.tgz"
    packed.write_bytes(build.packed(chart, 0))
    return packed


def test_an_upgrade_from_the_release_before_keeps_values_takes_new_defaults_and_refuses_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    team = plane.namespace("team")
    own = ("--create-namespace", "--set", "replicas=1,config.log.admissions=denied")
    run(plane, "install", "ray-webhook", str(chart_of_before(tmp_path)), *own)
    assert not plane.api.ok(POLICY)
    with Deployed(plane):
        until(lambda: closed(plane) == CLOSED, "the webhook has closed its entries")
        refusals, ended = list[bool](), Event()

        def watch() -> None:
            while not ended.is_set():
                refusals.append(refused(plane, team))

        watching = Thread(target=watch)
        watching.start()
        try:
            run(plane, "upgrade", "ray-webhook", str(CHART), "--reset-then-reuse-values")
        finally:
            ended.set()
            watching.join()
        assert refusals
        assert not any(refusals)
        assert closed(plane) == CLOSED
    assert plane.api.ok(POLICY)
    deployment = plane.api.get(DEPLOYMENTS, "ray-webhook", NAMESPACE)
    assert deployment["spec"]["replicas"] == 1
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == __version__
    settings = plane.api.get(CONFIG_MAPS, "ray-webhook-settings", NAMESPACE)["data"]
    assert "admissions: denied" in settings["settings.yaml"]


def test_an_uninstall_removes_the_configurations_before_the_webhook(plane: ControlPlane) -> None:
    team = plane.namespace("team")
    run(plane, "install", "ray-webhook", str(CHART), "--create-namespace")
    with Deployed(plane):
        until(lambda: closed(plane) == CLOSED, "the webhook has closed its entries")
    until(lambda: refused(plane, team), "nothing answers")

    left, ended = list[str](), Event()

    def watch() -> None:
        while not ended.is_set():
            gone = not exists(plane, DEPLOYMENTS, NAMESPACE)
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                if gone and exists(plane, kind):
                    left.append(kind.plural)

    watching = Thread(target=watch)
    watching.start()
    try:
        run(plane, "uninstall", "ray-webhook")
    finally:
        ended.set()
        watching.join()
    assert left == []
    assert not exists(plane, MUTATING_WEBHOOKS)
    assert not exists(plane, VALIDATING_WEBHOOKS)
    until(lambda: not refused(plane, team), "the API server has taken in that nothing is asked")


def test_without_cert_manager_its_mode_is_refused_in_one_sentence(plane: ControlPlane) -> None:
    plane.namespace(NAMESPACE)
    done = helm(
        plane, "install", "ray-webhook", str(CHART), "--set", "certificates.source=cert-manager"
    )
    assert done.returncode != 0
    assert "the cluster does not serve cert-manager.io/v1: install cert-manager" in done.stderr
    assert "no matches for kind" not in done.stderr


def test_with_cert_manager_the_entries_are_closed_as_well(plane: ControlPlane) -> None:
    needs.CERT_MANAGER.ask()
    with CertManager(plane):
        values = ("--set", "certificates.source=cert-manager,validating.failurePolicy=Fail")
        run(plane, "install", "ray-webhook", str(CHART), "--create-namespace", *values)
        with Deployed(plane):
            everything = {*CLOSED, "clusters.admission.ray.io"}
            until(lambda: closed(plane) == everything, "the webhook has closed its entries")
