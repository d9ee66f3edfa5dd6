"""Assumptions of the tests about the chosen KubeRay and Kubernetes, checked on the programs."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from tests.e2e import needs
from tests.e2e.api import RAY_CLUSTERS, SERVICES
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.process import ProgramError
from tests.e2e.rays import HOSTS, slices, wait_for_workers

pytestmark = pytest.mark.e2e


def starts(known: bool) -> AbstractContextManager[Any]:
    """An operator starts that knows what it is given, and ends at once that does not."""
    return (
        nullcontext() if known else pytest.raises(ProgramError, match="ended before it was ready")
    )


def test_the_operator_knows_the_gate_of_its_version(control_plane: ControlPlane) -> None:
    gate = {"RayMultiHostIndexing": False}
    with starts(needs.MULTI_HOST_INDEXING.is_met), Operator(control_plane, feature_gates=gate):
        pass


def test_the_operator_knows_the_flags_of_its_version(control_plane: ControlPlane) -> None:
    with starts(needs.CLIENT_RATE.is_met), Operator(control_plane, flags=UNTHROTTLED):
        pass


def test_the_headless_service_has_the_name_of_its_version(control_plane: ControlPlane) -> None:
    api, namespace = control_plane.api, control_plane.namespace("service-name")
    with Operator(control_plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 1), namespace)
        wait_for_workers(api, namespace, HOSTS)
    services = {each["metadata"]["name"] for each in api.list(SERVICES, namespace)}
    assert ("one-headless" in services) == needs.HEADLESS_SERVICE.is_met, services
    assert ("one-headless-worker-svc" in services) != needs.HEADLESS_SERVICE.is_met, services


def test_the_api_server_lets_pods_be_resized_where_its_version_does(
    control_plane: ControlPlane,
) -> None:
    resources = control_plane.api.request("GET", "/api/v1").body["resources"]
    assert ("pods/resize" in {each["name"] for each in resources}) == needs.RESIZE.is_met


def test_the_api_server_holds_numbers_to_int32_where_its_version_does(
    control_plane: ControlPlane,
) -> None:
    """The policy is asked after the schema, so its denial shows that this takes the number."""
    cluster = slices("large", 1)
    cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 10_000_000_000
    said = control_plane.api.refusal(RAY_CLUSTERS, cluster, control_plane.namespace("int32"))
    by_schema = bool(said) and "ValidatingAdmissionPolicy" not in said
    assert by_schema == needs.INT32.is_met
    assert not by_schema or "maxReplicas" in said
