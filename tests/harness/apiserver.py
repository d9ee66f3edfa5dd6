"""Fake kube-apiserver: posts reviews over HTTPS, applies patches with a separate library, and names
the objects that it creates.
"""

import base64
import copy
import itertools
import json
import random
import ssl
import uuid
from pathlib import Path
from typing import Any, Self

import httpx
import jsonpatch

Object = dict[str, Any]

POD = (
    {"group": "", "version": "v1", "kind": "Pod"},
    {"group": "", "version": "v1", "resource": "pods"},
)
_UIDS = itertools.count(1)
"""Reviews are numbered, so that a test run sends the same each time."""


class RefusedError(Exception):
    """The webhook denied the object; `status` is what the user would see."""

    def __init__(self, status: Object) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


class ApiServer:
    """A kube-apiserver with one webhook and no storage but `pods`, the live pods by name."""

    def __init__(self, url: str, authority: Path, seed: int = 0) -> None:
        self.url = url
        self.pods: dict[str, Object] = {}
        self.warnings: list[str] = []
        self.calls = 0
        self._client = httpx.Client(
            base_url=url, verify=ssl.create_default_context(cafile=str(authority)), timeout=60
        )
        self._random = random.Random(seed)  # noqa: S311 - names, not secrets
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def post(self, path: str, body: bytes, **headers: str) -> httpx.Response:
        return self._client.post(
            path, content=body, headers={"content-type": "application/json"} | headers
        )

    def stream(self, path: str, parts: list[bytes]) -> httpx.Response:
        """Return the raw answer to a body that is sent in chunks, without its length."""
        return self._client.post(
            path, content=iter(parts), headers={"content-type": "application/json"}
        )

    def request(self, method: str, path: str) -> httpx.Response:
        return self._client.request(method, path)

    def review(self, review: Object, path: str = "/mutate") -> Object:
        """Return the `response` of a review. Fails unless it is a proper AdmissionReview."""
        self.calls += 1
        answer = self.post(path, json.dumps(review).encode())
        assert answer.status_code == httpx.codes.OK, answer.text
        document = answer.json()
        assert (document["apiVersion"], document["kind"]) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
        )
        response: Object = document["response"]
        assert response["uid"] == review["request"]["uid"]
        assert ("patch" in response) == ("patchType" in response)
        return response

    def admit(
        self, pod: Object, *, dry_run: bool = False, uid: str | None = None
    ) -> tuple[Object, list[Object]]:
        response = self.review(pod_review(pod, dry_run=dry_run, uid=uid))
        self.warnings += response.get("warnings", [])
        if not response["allowed"]:
            assert "patch" not in response
            raise RefusedError(response["status"])
        patch: list[Object] = (
            json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        )
        return jsonpatch.apply_patch(pod, patch), patch

    def create(self, pod: Object) -> Object:
        stored, _ = self.admit(pod)
        stored = copy.deepcopy(stored)
        suffix = "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        name = f"{stored['metadata']['generateName']}{suffix}-{next(self._numbers)}"
        stored["metadata"] |= {
            "name": name,
            "uid": str(uuid.UUID(int=self._random.getrandbits(128))),
        }
        self.pods[name] = stored
        return stored

    def delete(self, pod: Object) -> None:
        review = pod_review(pod, operation="DELETE")
        review["request"] |= {"object": None, "oldObject": pod, "name": pod["metadata"]["name"]}
        assert self.review(review)["allowed"]
        del self.pods[pod["metadata"]["name"]]


def pod_review(
    pod: Object, *, operation: str = "CREATE", dry_run: bool = False, uid: str | None = None
) -> Object:
    kind, resource = POD
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid or str(uuid.UUID(int=next(_UIDS))),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": pod["metadata"].get("namespace", "default"),
            "operation": operation,
            "userInfo": {"username": "system:serviceaccount:ray-system:kuberay-operator"},
            "object": pod,
            "oldObject": None,
            "dryRun": dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"},
        },
    }


def object_review(document: Object, *, old: Object | None = None, uid: str | None = None) -> Object:
    kind = {"group": "ray.io", "version": "v1", "kind": document["kind"]}
    review = pod_review(document, operation="UPDATE" if old else "CREATE", uid=uid)
    resource = {"group": "ray.io", "version": "v1", "resource": document["kind"].lower() + "s"}
    review["request"] |= {
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "oldObject": old,
    }  # fmt: skip
    review["request"]["name"] = document["metadata"]["name"]
    return review
