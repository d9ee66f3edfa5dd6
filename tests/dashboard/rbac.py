"""Roles and bindings as the API server lists them."""

from typing import Any

Object = dict[str, Any]

RAY = {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "list"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}


def role(name: str, *rules: Object, namespace: str = "") -> Object:
    """Return a ClusterRole, or a Role of a namespace; without rules it lists what is needed."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": meta, "rules": list(rules or (RAY, PODS))}


def binding(namespace: str, role_name: str, *users: str, kind: str = "ClusterRole") -> Object:
    subjects = [{"kind": "User", "name": each} for each in users]
    return bound(namespace, role_name, *subjects, kind=kind)


def bound(namespace: str, role_name: str, *subjects: Object, kind: str = "ClusterRole") -> Object:
    names = "-".join(each["name"] for each in subjects)
    return {
        "metadata": {"name": f"{role_name}-{names}", "namespace": namespace},
        "roleRef": {"kind": kind, "name": role_name},
        "subjects": list(subjects),
    }
