"""Metrics of caches: those of the server that runs."""

import json

from prometheus_client import CollectorRegistry, generate_latest

from tests.apiserver import pod_review
from tests.builders import a_pod
from webhook.admission.review_cache import ReviewCache
from webhook.telemetry.caches import CacheCollector


def test_a_scrape_tells_how_often_a_cache_knew() -> None:
    cache, registry = ReviewCache(), CollectorRegistry()
    registry.register(CacheCollector({"reviews": cache}))
    body = json.dumps(
        pod_review(a_pod().worker("g").of("c").build()), separators=(",", ":")
    ).encode()
    for _ in range(5):
        cache.read(body)
    text = generate_latest(registry).decode()
    assert 'ray_webhook_cache_hits_total{cache="reviews"} 3.0' in text
    assert 'ray_webhook_cache_misses_total{cache="reviews"} 2.0' in text
