"""Records of an answer besides the verdict: audit log of the API server, own log and metrics."""

import asyncio
import json
from typing import Any

import pytest

from tests.builders import PodBuilder, Webhook, a_cluster, a_pod
from tests.harness.apiserver import object_review, pod_review
from tests.webhook.logging.test_log import Lines
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import Mutation, ObjectReviewer, Outcome
from webhook.logging.log import Log
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import ReviewCounts, ReviewObserver


def mutated(pod: dict[str, Any]) -> Outcome:
    webhook = Webhook(a_cluster("c").group("g", hosts=2).build())
    body = json.dumps(pod_review(pod)).encode()
    return asyncio.run(Mutation(webhook.handler).review(body))


def validated(cluster: dict[str, Any]) -> Outcome:
    body = json.dumps(object_review(cluster)).encode()
    return asyncio.run(ObjectReviewer(RayHandler()).review(body))


def audited(outcome: Outcome) -> dict[str, str] | None:
    response: dict[str, Any] = json.loads(outcome.body)["response"]
    return response.get("auditAnnotations")


def line_of(outcome: Outcome) -> dict[str, Any]:
    lines = Lines()
    observer = ReviewObserver(Log(lines), ReviewCounts(Metrics("serve")))
    observer.reviewed(outcome, 0.0)
    observer.flush()
    (line,) = lines.read()
    return line


@pytest.mark.parametrize(("pod", "identity"), [
    (a_pod().worker("g"), "g/0/0"), (a_pod().worker("g").spec(hostname="mine"), "g/0/0"),
    (a_pod().worker("g").identity(7, 1, "g-abcde"), "g/7/1"), (a_pod().head(), ""),
    (a_pod().worker("none"), ""),
], ids=["assigned", "with a warning", "carried", "a head", "refused"])  # fmt: skip
def test_the_identity_of_a_worker_is_in_the_audit_log(pod: PodBuilder, identity: str) -> None:
    assert audited(mutated(pod.of("c").build())) == ({"identity": identity} if identity else None)


@pytest.mark.parametrize(("group", "fields"), [
    ("g", {"replica": 0, "host": 0}), ("none", {"replica": None, "host": None}),
])  # fmt: skip
def test_the_journal_tells_the_identity(group: str, fields: dict[str, int | None]) -> None:
    line = line_of(mutated(a_pod().of("c").worker(group).build()))
    expected = {"cluster": "c", "group": group, **fields}
    assert {name: line.get(name) for name in expected} == expected


def test_rules_that_deny_and_that_warn_are_audited_and_logged() -> None:
    cluster = a_cluster("c").group("g", replicas=9, minReplicas=0, maxReplicas=3).group("g").build()
    outcome = validated(cluster)
    assert "group-name-duplicate" in outcome.answer.rules
    assert "group-name-duplicate" in line_of(outcome)["rules"]
    assert outcome.answer.warned
    assert audited(outcome) == {"rules": ", ".join((*outcome.answer.rules, *outcome.answer.warned))}


def test_warnings_are_counted_by_rule() -> None:
    metrics = Metrics("serve")
    observer = ReviewObserver(Log(Lines()), ReviewCounts(metrics))
    outcome = validated(a_cluster("c").group("g", replicas=9, minReplicas=0, maxReplicas=3).build())
    observer.reviewed(outcome, 0.0)
    for rule in outcome.answer.warned:
        count = f'ray_webhook_rule_warnings_total{{rule="{rule}"}} 1.0'
        assert count.encode() in metrics.exposition()[0]
