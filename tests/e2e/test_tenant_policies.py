"""The policies for several tenants, in a real API server: accounts that may set identity labels and
the label that disables checks.
"""

from typing import Any

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import applied
from tests.e2e.rays import slices
from tests.e2e.waiting import SECONDS
from tests.harness.listener import until as wait_until
from tests.manifests.render import Object, kustomize

pytestmark = pytest.mark.e2e

IDENTITY = {"ray.io/worker-group-replica-index": "0"}
IGNORE = {"admission.ray.io/ignore": "true"}
KUBERAY = "system:serviceaccount:ray-system:kuberay-operator"
CONTROLLER = "system:serviceaccount:ray-webhook:ray-webhook-controller"


def may_write(namespace: str) -> list[Object]:
    """Return the rights to write everything in a namespace's pods and RayClusters, for a tenant and
    for KubeRay.
    """
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "writer", "namespace": namespace},
        "rules": [
            {
                "apiGroups": ["", "ray.io"],
                "resources": ["pods", "rayclusters"],
                "verbs": ["get", "create", "update", "patch"],
            },
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "patch"]},
        ],
    }
    subjects = [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
        for name in ("tenant", KUBERAY, CONTROLLER)
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "writer", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        "subjects": subjects,
    }
    return [role, binding]


def pod(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    """Return a pod."""
    containers = [{"name": "ray", "image": "ray"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {"containers": containers},
    }


# Any object
def said(plane: ControlPlane, user: str, namespace: str, *words: str, body: Any = None) -> str:  # noqa: ANN401
    """Return what is said to a user who is refused, or nothing."""
    done = plane.kubectl(
        f"--as={user}", "-n", namespace, *words, stdin=yaml.safe_dump(body) if body else ""
    )
    return done.stderr if done.returncode else ""


def test_a_tenant_sets_no_identity_labels_and_ignores_nothing_while_kuberay_gives_identities(
    control_plane: ControlPlane,
) -> None:
    namespace = control_plane.namespace("tenant-policies")
    create = ("create", "-f", "-")
    with applied(control_plane, [*kustomize("manifests/policies/tenants"), *may_write(namespace)]):
        dry = (*create, "--dry-run=server")
        wait_until(
            lambda: (
                "identity labels"
                in said(control_plane, "tenant", namespace, *dry, body=pod("a", IDENTITY))
            ),
            SECONDS,
        )
        ignored = slices("ignored", 0)
        ignored["metadata"]["labels"] = IGNORE
        wait_until(
            lambda: (
                "admission.ray.io/ignore"
                in said(control_plane, "tenant", namespace, *dry, body=ignored)
            ),
            SECONDS,
        )

        assert (
            said(control_plane, KUBERAY, namespace, *create, body=pod("identified", IDENTITY)) == ""
        )
        assert (
            said(control_plane, "tenant", namespace, *create, body=pod("plain", {"app": "x"})) == ""
        )
        assert "identity labels" in said(
            control_plane,
            "tenant",
            namespace,
            "label",
            "pod",
            "plain",
            "ray.io/replica-host-index=0",
        )
        empty = pod("empty", {"ray.io/worker-group-replica-name": ""})
        assert "identity labels" in said(control_plane, "tenant", namespace, *create, body=empty)
        noted = pod("noted", {}, {"admission.ray.io/identity": "assigned"})
        assert "identity labels" in said(control_plane, "tenant", namespace, *create, body=noted)
        assert said(control_plane, CONTROLLER, namespace, *create, body=noted) == ""
        condemn = ("label", "pod", "plain", "admission.ray.io/marked-for-deletion=true")
        assert "identity labels" in said(control_plane, "tenant", namespace, *condemn)
        forget = ("annotate", "pod", "noted", "admission.ray.io/identity-")
        assert "identity labels" in said(control_plane, "tenant", namespace, *forget)
        remove = ("label", "pod", "identified", "ray.io/worker-group-replica-index-")
        assert "identity labels" in said(control_plane, "tenant", namespace, *remove)
        assert said(control_plane, "tenant", namespace, "label", "pod", "identified", "app=y") == ""

        plain = slices("plain", 0)
        assert said(control_plane, "tenant", namespace, *create, body=plain) == ""
        ignore = ("label", "raycluster", "plain", "admission.ray.io/ignore=true")
        assert "admission.ray.io/ignore" in said(control_plane, "tenant", namespace, *ignore)
        assert control_plane.kubectl("-n", namespace, *ignore).returncode == 0
        outside = ("label", "namespace", namespace, "admission.ray.io/ignore=true")
        assert "admission.ray.io/ignore" in said(control_plane, "tenant", namespace, *outside)
        assert (
            said(control_plane, "tenant", namespace, "label", "raycluster", "plain", "app=y") == ""
        )
