"""Realistic reviews of TPU worker pods of about 10 KB, as KubeRay builds them."""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from pathlib import Path

import yaml

from tests.harness.apiserver import Object, object_review, pod_review
from tests.harness.ray_objects import a_cluster

_UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
_TIME = "2026-11-21T08:00:00Z"
_VOLUME = "kube-api-access-x7k2p"
_NAME = "bench-tpu-group-worker-q8w3n"
_REPLICA = "54321"
_SUFFIX = "x9z4q"
_HOST = "77"
_PODS_A_SECOND = 1000
_HOSTS = 16
_NAMED = 10**9
"""The number of the first named pod: the server takes no two pods for one."""

_MANY = dict.fromkeys(("replicas", "maxReplicas"), 1_000_000)
CLUSTER = a_cluster("bench").group("tpu-group", hosts=_HOSTS, **_MANY).build()
CLUSTER["metadata"] |= {"namespace": "default", "uid": "2b7c1d5e-0000-4000-8000-00000000cafe"}


def worker_pod() -> Object:
    pod: Object = yaml.safe_load(Path(__file__).with_name("worker.yaml").read_text())
    pod["metadata"]["managedFields"] = [managed()]
    return pod


def managed() -> Object:
    fields: Object = {
        f'k:{{"name":"APP_SETTING_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(15)
    }
    spec = {"f:containers": {'k:{"name":"ray-worker"}': {"f:env": fields}}}
    return {
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec},
        "manager": "kuberay-operator", "operation": "Update", "time": _TIME,
    }  # fmt: skip


class Body(StrEnum):
    """What KubeRay and kube-apiserver made up for a pod before the webhook sees it."""

    LABELLED = "labelled"
    """The identity labels of KubeRay 1.6 and later."""
    FRESH = "fresh"
    """No identity: KubeRay up to 1.5, or a gate that is off."""
    NAMED = "named"
    """A name of its own, by which no two are alike."""


def review_bodies(kind: Body = Body.FRESH) -> Iterator[bytes]:
    """Yield reviews that differ as those of kube-apiserver: by uid, token volume and second."""
    pod = worker_pod()
    labels = pod["metadata"]["labels"]
    if kind is Body.NAMED:
        del pod["metadata"]["generateName"]
        pod["metadata"]["name"] = _NAME
    if kind is Body.LABELLED:
        labels["ray.io/replica-host-index"] = _HOST
        labels["ray.io/worker-group-replica-index"] = _REPLICA
        labels["ray.io/worker-group-replica-name"] = f"tpu-group-{_SUFFIX}"
    text = json.dumps(pod_review(pod, uid=_UID), separators=(",", ":")).encode()
    marks = [_UID, _TIME, _VOLUME, _NAME, f'"{_REPLICA}"', _SUFFIX, f'"{_HOST}"']
    parts = re.split(f"({'|'.join(marks)})".encode(), text)
    made_up = parts[1::2]
    for number in count(_NAMED if kind is Body.NAMED else 0):
        second, replica = number // _PODS_A_SECOND, number // _HOSTS % 50_000 + 10_000
        own = {
            _UID.encode(): b"%0*d" % (len(_UID), number),
            _TIME.encode(): b"2026-11-21T%02d:%02d:%02dZ"
            % (second // 3600 % 24, second // 60 % 60, second % 60),
            _VOLUME.encode(): b"kube-api-access-%05d" % (number % 100_000),
            _NAME.encode(): b"bench-tpu-group-worker-%d" % number,
            f'"{_REPLICA}"'.encode(): b'"%d"' % replica,
            _SUFFIX.encode(): b"%05d" % replica,
            f'"{_HOST}"'.encode(): b'"%d"' % (number % _HOSTS),
        }
        parts[1::2] = [own[part] for part in made_up]
        yield b"".join(parts)


_HEADS = 400
_LARGE = 69_000
"""Bytes of a review of a large pod."""


def state() -> Object:
    heads = [
        {**CLUSTER, "metadata": {**CLUSTER["metadata"], "name": f"bench-{n}", "uid": f"{n:036}"}}
        for n in range(_HEADS)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [CLUSTER, *heads]}


def head_bodies() -> Iterator[bytes]:
    pod = worker_pod()
    pod["metadata"]["labels"] |= {"ray.io/group": "headgroup", "ray.io/node-type": "head"}
    pod["spec"]["nodeSelector"] = {}
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": "8", "memory": "40Gi"}}
    heads = []
    for number in range(_HEADS):
        name = f"bench-{number}"
        pod["metadata"]["labels"]["ray.io/cluster"] = name
        pod["metadata"]["generateName"] = f"{name}-head-"
        pod["metadata"]["ownerReferences"][0] |= {"name": name, "uid": f"{number:036}"}
        heads.append(_with_uids(pod_review(pod, uid=_UID)))
    for number in count():
        yield next(heads[number % _HEADS])


def large_bodies() -> Iterator[bytes]:
    pod = worker_pod()
    env = pod["spec"]["containers"][0]["env"]
    while len(json.dumps(pod)) < _LARGE:
        env.append({"name": f"MORE_{len(env)}", "value": "a value of some length " * 4})
    return _with_uids(pod_review(pod, uid=_UID))


def ray_bodies(groups: int) -> Iterator[bytes]:
    cluster = a_cluster()
    for number in range(groups):
        cluster.group(f"tpu-{number}", hosts=64, replicas=2).tpu("16x16", 4)
        for variable in range(6):
            cluster.env(f"VARIABLE_{variable}", "value")
    return _with_uids(object_review(cluster.build(), uid=_UID))


def _with_uids(review: Object) -> Iterator[bytes]:
    text = json.dumps(review, separators=(",", ":")).encode()
    before, after = text.split(_UID.encode(), 1)
    for number in count():
        yield b"%b%0*d%b" % (before, len(_UID), number, after)
