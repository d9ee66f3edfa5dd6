"""Reviews that are expensive to process: each is small and well-formed."""

import json
from itertools import cycle
from typing import Final

from tests.builders import Object, a_cluster
from tests.harness.apiserver import object_review, pod_review
from tests.harness.objects import worker

_V7X: Final = {
    "cloud.google.com/gke-tpu-accelerator": "tpu7x",
    "cloud.google.com/gke-tpu-topology": "16x32x32",
}
_V6E: Final = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "3000x3000",
}
_HEAD: Final = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
_START: Final = _HEAD % b"/mutate"


def large_answers() -> list[bytes]:
    """Return pods to which 490 MB, 210 MB and 2 MB would be added."""
    slices = _pod("vast", 60, "4", nodeSelector=_V7X)
    chips = _pod("chips", 1, "9000000", nodeSelector=_V6E)
    gpus = _pod("gpus", 3000, "8", "nvidia.com/gpu")
    return [_request(pod) for pod in (slices, chips, gpus)]


def long_digits() -> list[bytes]:
    """Return numbers of more digits than Python converts, in bodies and in a header."""
    pod = _pod("vast", 1, "4", nodeSelector=_V7X)
    pod["spec"]["containers"][0]["env"] = [{"name": "MEGASCALE_NUM_SLICES", "value": "9" * 4301}]
    length = b"content-length: " + b"0" * 5000 + b"100000\r\n\r\n" + b"x" * 100_000
    return [_request(pod), _START + length]


def one_uid() -> list[bytes]:
    pod = worker("hosts-4")
    return [_request(pod, uid="705ab4f5-6393-11e8-b7cc-42010a800002", dry_run=False)]


def ray_objects() -> list[bytes]:
    """Return Ray objects of about 57 KB with many parts of one kind."""
    variables = [{"name": f"V{number}", "value": "x"} for number in range(2_000)]
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(1_600)]
    containers = [{"name": f"c{number}", "image": "rayproject/ray"} for number in range(1_350)]
    first = {"name": "ray-worker", "image": "rayproject/ray"}
    clusters = [
        _ray_cluster({"containers": [{**first, "env": variables}]}),
        _ray_cluster({"containers": [first], "tolerations": tolerations}),
        _ray_cluster({"containers": containers}),
        _ray_cluster({"containers": [first]}, groups=430),
    ]
    deployments = [{"name": f"d{number}"} for number in range(2_450)]
    service = {
        **clusters[0],
        "kind": "RayService",
        "spec": {
            "serveConfigV2": json.dumps(
                {"applications": [{"import_path": "m:a", "deployments": deployments}]}
            ),
            "rayClusterConfig": _ray_cluster({"containers": [first]})["spec"],
        },
    }
    return [_validation(document) for document in (*clusters, service)]


def large_ray_objects() -> list[bytes]:
    """Return RayClusters of about 310 KiB, which is allowed, and of 1.3 MB."""
    first = {"name": "ray-worker", "image": "rayproject/ray"}
    return [_validation(_ray_cluster({"containers": [first]}, groups)) for groups in (2_300, 9_800)]


BODIES: Final = {
    "ray-objects": ray_objects, "large-ray-objects": large_ray_objects,
    "large-answers": large_answers, "long-digits": long_digits, "one-uid": one_uid,
}  # fmt: skip


def requests(name: str) -> "cycle[bytes]":
    return cycle(BODIES[name]())


def _ray_cluster(spec: Object, groups: int = 1) -> Object:
    built = a_cluster("hostile")
    for number in range(groups):
        built.group(f"g{number}", template={"spec": spec})
    return built.build()


def _validation(document: Object) -> bytes:
    body = json.dumps(object_review(document), separators=(",", ":")).encode()
    return _HEAD % b"/validate" + b"content-length: %d\r\n\r\n" % len(body) + body


def _pod(
    group: str, containers: int, amount: str, resource: str = "google.com/tpu", **spec: object
) -> Object:
    pod = worker(group, "hostile")
    limits = {"resources": {"limits": {resource: amount}}}
    pod["spec"]["containers"] = [
        {"name": f"c{number}", "image": "ray", **(limits if number == 0 else {})}
        for number in range(containers)
    ]
    pod["spec"] |= spec
    return pod


def _request(pod: Object, *, uid: str | None = None, dry_run: bool = True) -> bytes:
    body = json.dumps(pod_review(pod, uid=uid, dry_run=dry_run), separators=(",", ":")).encode()
    return _START + b"content-length: %d\r\n\r\n" % len(body) + body
