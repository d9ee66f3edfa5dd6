"""The policies for several tenants, in a real API server: accounts that may set identity labels and
the label that disables checks.
"""

from typing import Any

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import applied, grant
from tests.e2e.rays import slices
from tests.e2e.waiting import until
from tests.manifests.render import Object, kustomize

pytestmark = pytest.mark.e2e

ONE = {"ray.io/worker-group-replica-index": "0"}
IGNORE = "admission.ray.io/ignore"
LABELS = "identity labels"
"""A part of the message of the policy."""
KUBERAY = "system:serviceaccount:ray-system:kuberay-operator"
CONTROLLER = "system:serviceaccount:ray-webhook:ray-webhook-controller"


def pod(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    containers = [{"name": "ray", "image": "ray"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {"containers": containers},
    }


# Any object
def said(plane: ControlPlane, user: str, namespace: str, *words: str, body: Any = None) -> str:  # noqa: ANN401
    done = plane.kubectl(
        f"--as={user}", "-n", namespace, *words, stdin=yaml.safe_dump(body) if body else ""
    )
    return done.stderr if done.returncode else ""


def test_a_tenant_sets_no_identity_labels_and_ignores_nothing_while_kuberay_gives_identities(
    control_plane: ControlPlane,
) -> None:
    namespace = control_plane.namespace("tenant-policies")
    create = ("create", "-f", "-")

    def tenant(*words: str, body: Object | None = None) -> str:
        return said(control_plane, "tenant", namespace, *words, body=body)

    def others(user: str, body: Object) -> str:
        return said(control_plane, user, namespace, *create, body=body)

    verbs, resources = "get,create,update,patch", "pods,rayclusters.ray.io,namespaces"
    users = [f"--user={name}" for name in ("tenant", KUBERAY, CONTROLLER)]
    grant(control_plane, namespace, "writer", verbs, resources, *users)
    with applied(control_plane, kustomize("manifests/policies/tenants")):
        dry, ignored, identified = (
            (*create, "--dry-run=server"),
            slices("ignored", 0),
            pod("a", ONE),
        )
        ignored["metadata"]["labels"] = {IGNORE: "true"}
        until(lambda: LABELS in tenant(*dry, body=identified), "the policy of identity labels")
        until(lambda: IGNORE in tenant(*dry, body=ignored), "the policy of the label ignore")

        assert others(KUBERAY, pod("identified", ONE)) == ""
        assert tenant(*create, body=pod("plain", {"app": "x"})) == ""
        assert LABELS in tenant("label", "pod", "plain", "ray.io/replica-host-index=0")
        empty = pod("empty", {"ray.io/worker-group-replica-name": ""})
        assert LABELS in tenant(*create, body=empty)
        noted = pod("noted", {}, {"admission.ray.io/identity": "assigned"})
        assert LABELS in tenant(*create, body=noted)
        assert others(CONTROLLER, noted) == ""
        mark = "admission.ray.io/marked-for-deletion=true"
        assert LABELS in tenant("label", "pod", "plain", mark)
        assert LABELS in tenant("annotate", "pod", "noted", "admission.ray.io/identity-")
        index = "ray.io/worker-group-replica-index-"
        assert LABELS in tenant("label", "pod", "identified", index)
        assert tenant("label", "pod", "identified", "app=y") == ""

        assert tenant(*create, body=slices("plain", 0)) == ""
        ignore = ("label", "raycluster", "plain", f"{IGNORE}=true")
        assert IGNORE in tenant(*ignore)
        assert control_plane.kubectl("-n", namespace, *ignore).returncode == 0
        assert IGNORE in tenant("label", "namespace", namespace, f"{IGNORE}=true")
        assert tenant("label", "raycluster", "plain", "app=y") == ""
