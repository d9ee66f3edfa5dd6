"""While the webhook is unavailable, pods are rejected that cannot run without it, and no others."""

import json
from collections import Counter

from msgspec.structs import replace

from tests.builders import Object, Webhook, a_pod
from tests.manifests.entries import corpus, needs_webhook
from webhook.accelerators.devices import TPU
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster
from webhook.mutation.ray_pod import DEFAULT_POLICY


def pods_of(manifest: Manifest, *, indexed: bool = True) -> list[Object]:
    return list(expand(manifest.document, as_cluster(manifest), indexed=indexed))


def test_with_indices_of_kuberay_workers_of_several_hosts_or_with_tpus_are_rejected() -> None:
    pods_by_need: Counter[tuple[bool, bool]] = Counter()
    for manifest in corpus():
        hosts = {
            group["groupName"]: group.get("numOfHosts", 1)
            for group in manifest.document["spec"].get("workerGroupSpecs") or ()
        }
        for pod in pods_of(manifest):
            several = hosts.get(pod["metadata"]["labels"][names.LABEL_GROUP], 1) > 1
            containers = pod["spec"].get("containers", []) + pod["spec"].get("initContainers", [])
            tpus = any(
                resource in json.dumps(container.get("resources"))
                for container in containers
                for resource in TPU.resources
            )
            assert needs_webhook(pod) == (several or tpus), pod["metadata"]
            pods_by_need[several, tpus] += 1
    needs = {(several, tpus) for several in (True, False) for tpus in (True, False)}
    assert pods_by_need.keys() == needs


def test_without_indices_every_worker_is_rejected_and_no_head() -> None:
    for manifest in corpus():
        head, *workers = pods_of(manifest, indexed=False)
        assert not needs_webhook(head)
        assert all(map(needs_webhook, workers))


def test_other_pods_are_unchanged_by_the_webhook_unless_a_setting_or_raycluster_asks() -> None:
    for manifest in corpus():
        document = manifest.document
        document["metadata"]["annotations"] = {}
        webhook = Webhook(document, policy=replace(DEFAULT_POLICY, raise_wait_gcs_ready=False))
        for pod in pods_of(manifest):
            if not needs_webhook(pod):
                assert webhook.admit(pod).patch == [], pod["metadata"]


def test_a_pod_stays_with_the_entry_that_admitted_it() -> None:
    for manifest in corpus():
        for indexed in (True, False):
            webhook = Webhook(manifest.document)
            for pod in pods_of(manifest, indexed=indexed):
                assert needs_webhook(webhook.admit(pod).pod) == needs_webhook(pod)


def test_a_head_with_tpus_is_not_rejected() -> None:
    assert not needs_webhook(a_pod().head().tpu(4).build())
