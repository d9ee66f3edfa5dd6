"""The index of the controller has the identities of worker pods, as the admission process has."""

from msgspec import json

from tests.harness.objects import KEY, a_pod
from webhook.api import names
from webhook.controller.group_index import GroupIndex
from webhook.controller.work_queue import Key, WorkQueue
from webhook.groups.identity import HostIdentity
from webhook.objects.live_objects import LivePod
from webhook.objects.object_cache import ObjectCache


def test_a_live_pod_keeps_its_identity_when_its_labels_are_removed_or_invalid() -> None:
    object_cache = ObjectCache()
    index = GroupIndex(object_cache)
    pod = a_pod("pod-0", HostIdentity(0, 1, "tpu-x"))
    labels = pod["metadata"]["labels"]
    without = {key: text for key, text in labels.items() if key not in names.IDENTITY_LABELS}
    invalid = labels | {names.LABEL_REPLICA_INDEX: "01"}
    for version, found in enumerate((labels, without, invalid)):
        pod["metadata"] |= {"uid": "a", "resourceVersion": str(version), "labels": found}
        object_cache.pods.put("a", json.decode(json.encode(pod), type=LivePod))
        assert index.members.group(KEY).replica_names == {"tpu-x"}
    assert index.malformed == 1
    pod["metadata"]["labels"] = labels | {names.LABEL_NODE_TYPE: names.NODE_TYPE_HEAD}
    object_cache.pods.put("a", json.decode(json.encode(pod), type=LivePod))
    assert not index.members.group(KEY)


class Requests(WorkQueue):
    """A queue that only counts what is added."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, _key: Key, *, changed: bool = False) -> None:
        self.count += not changed


def test_a_raycluster_is_reconciled_when_the_indexes_of_a_pod_change() -> None:
    object_cache, requests = ObjectCache(), Requests()
    GroupIndex(object_cache).subscribe(requests)
    pod = a_pod("pod-0", HostIdentity(0, 1, "tpu-x"))
    moved = {"labels": pod["metadata"]["labels"] | {names.LABEL_REPLICA_INDEX: "1"}}
    for change, count in (({"uid": "a"}, 1), ({"resourceVersion": "2"}, 1), (moved, 2)):
        pod["metadata"] |= change
        object_cache.pods.put("a", json.decode(json.encode(pod), type=LivePod))
        assert requests.count == count
