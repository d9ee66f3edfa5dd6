"""The forecast of quotas and limits, held to an API server: pods of random RayClusters are created
one by one, as KubeRay makes them, until one is refused.
"""

import re
from itertools import count

import msgspec
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from tests.e2e.api import LIMIT_RANGES, PODS, PRIORITY_CLASSES, QUOTAS, Api, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.webhook.validation.test_quotas import PRIORITIES, clusters, forecast, quotas, ranges
from webhook.api.objects import RayCluster
from webhook.manifest.kuberay_pods import expand

pytestmark = pytest.mark.e2e

INVALID = 422
CASES = 20
ATTEMPTS = 30
"""The API server may admit pods before its own watch has delivered a quota or a priority class."""
REFUSALS = (
    re.compile(r"exceeded quota: q, requested: (?P<names>\S+), used:"),
    re.compile(r"(?:must specify|;) (?P<names>\S+) for:"),
    re.compile(r"(?:maximum|minimum) (?P<names>[^\s\[]+) usage per"),
    re.compile(r"(?P<names>[^\s\[]+) max limit to request ratio per"),
    re.compile(r"must be less than or equal to (?P<names>\S+) limit"),
)
"""How the API server names the resources that it refuses."""


def test_a_forecast_is_right(control_plane: ControlPlane) -> None:
    api, number = control_plane.api, count()
    for name in filter(None, PRIORITIES):
        api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1})

    @settings(max_examples=CASES, phases=[Phase.generate])
    @given(clusters(), quotas(), st.lists(ranges(), max_size=1))
    def check(cluster: Json, quota: Json, limits: list[Json]) -> None:
        messages = [finding.message for finding in forecast(cluster, quota, *limits)]
        for _ in range(ATTEMPTS):
            namespace = control_plane.namespace(f"forecast-{next(number)}")
            _limit(api, namespace, quota, limits)
            refusal = _refusal(api, cluster, namespace)
            resources = _resources(refusal)
            named = any(name in text for text in messages for name in resources)
            if bool(messages) == bool(refusal) == bool(resources) == named:
                break
        assert bool(messages) == bool(refusal) == bool(resources) == named, (refusal, messages)

    check()


def _limit(api: Api, namespace: str, quota: Json, limits: list[Json]) -> None:
    for each in limits:
        try:
            api.create(LIMIT_RANGES, each, namespace)
        except ApiError as error:
            if error.code != INVALID:
                raise
            assume(False)  # noqa: FBT003 - a minimum above the maximum, for example
    stored = api.create(QUOTAS, quota, namespace)
    api.request("PUT", QUOTAS.path(namespace, "q", "status"), stored | {"status": quota["status"]})


def _refusal(api: Api, cluster: Json, namespace: str) -> str:
    for pod in expand(cluster, msgspec.convert(cluster, RayCluster)):
        metadata = {"generateName": "pod-"}
        spec = {**pod["spec"], "serviceAccountName": "default"}
        try:
            api.create(PODS, {"metadata": metadata, "spec": spec}, namespace)
        except ApiError as error:
            return str(error)
    return ""


def _resources(refusal: str) -> list[str]:
    return [
        entry.partition("=")[0]
        for pattern in REFUSALS
        for match in pattern.finditer(refusal)
        for entry in match["names"].split(",")
    ]
