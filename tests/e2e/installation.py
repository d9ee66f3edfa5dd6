"""The objects that users apply, rendered from the shipped manifests, and removed after use."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests import ROOT
from tests.e2e import build
from tests.e2e.api import MUTATING_WEBHOOKS, SERVICE_ACCOUNTS, VALIDATING_WEBHOOKS
from tests.e2e.control_plane import ControlPlane
from tests.manifests.render import REGISTRY, Object, helm
from webhook.controller.repair.repair_store import POLICY

Right = tuple[str, str, str]
"""Group, resource and verb."""

NAMESPACE = "ray-webhook"
WEBHOOK = "ray-webhook"
"""The process that answers reviews, its account, and its Deployment."""
CONTROLLER = "ray-webhook-controller"
"""The process that writes to the cluster, its account, and its Deployment."""
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{WEBHOOK}"
REGISTRATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


WITH_CONTROLLER = "controller.events=true"
"""The value of the chart that adds the process that writes events."""


def rendered(values: Sequence[str] = ()) -> list[Object]:
    """Return the objects of the chart with some values, for processes whose certificate a story
    makes: without the controller unless a value adds it.
    """
    base = ("certificates.source=cert-manager", "controller.events=false")
    found = helm(*base, *values)
    return [each for each in found if not each["apiVersion"].startswith("cert-manager.io/")]


def apply(plane: ControlPlane, objects: Sequence[Object], *flags: str) -> None:
    words = ("apply", "--server-side", "--validate=strict", *flags, "-f", "-")
    plane.run_kubectl(*words, stdin=yaml.safe_dump_all(objects))


def apply_kustomization(plane: ControlPlane, folder: str) -> None:
    """Apply a kustomization such as `manifests` as a user does. Fails with what kubectl says."""
    plane.run_kubectl("apply", "-k", str(ROOT / folder))


def try_helm(
    plane: ControlPlane, *words: str, program: str = build.HELM
) -> subprocess.CompletedProcess[str]:
    command = [str(build.binary(program)), *words, "--namespace", NAMESPACE]
    if words[0] in {"install", "upgrade"}:
        command += ["--set", f"image.registry={REGISTRY}"]
    return subprocess.run(
        command, env=plane.environment, capture_output=True, text=True, check=False, timeout=240
    )


def run_helm(plane: ControlPlane, *words: str, program: str = build.HELM) -> str:
    """Return what Helm prints. Fails with its error."""
    done = try_helm(plane, *words, program=program)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def applied(plane: ControlPlane, objects: Sequence[Object]) -> Iterator[None]:
    with removed(plane, objects):
        apply(plane, objects)
        yield


@contextmanager
def removed(plane: ControlPlane, objects: Sequence[Object]) -> Iterator[None]:
    """Remove objects when the block ends; a namespace stays, as nothing here finalizes one."""
    try:
        yield
    finally:
        lasting = [found for found in objects if found["kind"] != "Namespace"]
        plane.kubectl(
            "delete", "--ignore-not-found", "--wait=false", "-f", "-",
            stdin=yaml.safe_dump_all(lasting),
        )  # fmt: skip
        plane.kubectl("delete", "secret,configmap,lease", "--wait=false", "-n", NAMESPACE, "--all")


def token_kubeconfig(
    plane: ControlPlane, path: Path, account: str = WEBHOOK, namespace: str = NAMESPACE
) -> None:
    """Write a kubeconfig with a token of a service account, such as kubelet puts into its pods."""
    token = account_token(plane, account, namespace)
    config = json.loads(plane.admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def grant(
    plane: ControlPlane, namespace: str, name: str, verbs: str, resources: str, *subjects: str
) -> None:
    """Give subjects, such as `--user=NAME`, rights in a namespace, by a role of this name."""
    role = ("role", name, f"--verb={verbs}", f"--resource={resources}")
    for words in (role, ("rolebinding", name, f"--role={name}", *subjects)):
        plane.run_kubectl("create", *words, "-n", namespace)


def account_token(plane: ControlPlane, account: str, namespace: str) -> str:
    """Return a token of a service account, as `kubectl create token` prints it."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 7200},
    }
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    token: str = plane.api.request("POST", path, body).body["status"]["token"]
    return token


NAMED = {
    "leases": CONTROLLER,
    "configmaps": CONTROLLER,
    "validatingadmissionpolicies": POLICY,
    "validatingadmissionpolicybindings": POLICY,
    "customresourcedefinitions": "rayclusters.ray.io",
}
"""The resources of which roles name one object."""


def rights(role: Object) -> set[Right]:
    """What a role grants; named resources are only those of `NAMED`."""
    assert all(
        not set(rule) - {"apiGroups", "resources", "verbs", "resourceNames"}
        for rule in role["rules"]
    )
    for rule in role["rules"]:
        if names := rule.get("resourceNames"):
            assert {*names} == {NAMED[resource] for resource in rule["resources"]}
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(objects: Sequence[Object], account: str) -> set[Right]:
    """What manifests grant a service account, by all the roles that they bind to it."""
    bindings = [
        found
        for found in objects
        if account in {subject["name"] for subject in found.get("subjects", ())}
    ]
    bound = {(found["roleRef"]["kind"], found["roleRef"]["name"]) for found in bindings}
    roles = [found for found in objects if (found["kind"], found["metadata"]["name"]) in bound]
    return {right for role in roles for right in rights(role)}


def account_rights(plane: ControlPlane, account: str = WEBHOOK) -> set[Right]:
    """Return the rights of an account, as the API server lists them: also those of everybody."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    words = ("create", user, "--validate=false", "-o", "json", "-f", "-")
    status = json.loads(plane.run_kubectl(*words, stdin=json.dumps(review)))["status"]
    assert not status["incomplete"]
    return rights({"rules": status["resourceRules"]})


def bundles(plane: ControlPlane) -> set[str]:
    return {
        webhook["clientConfig"].get("caBundle", "")
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        for webhook in plane.api.get(resource, WEBHOOK)["webhooks"]
    }
