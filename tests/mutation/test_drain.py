"""Workers of a RayCluster with the annotation drain before they end; values of the user are
kept.
"""

import pytest

from tests.builders import (
    ClusterBuilder,
    Decided,
    PodBuilder,
    a_cluster,
    a_pod,
    decide,
    env_of,
)
from webhook.api import names
from webhook.mutation.drain import HOOK
from webhook.mutation.ray_pod import Policy

OLD, NEW, UNKNOWN = "rayproject/ray:2.56.1", "rayproject/ray:2.57.0", "registry/of/mine:7"


def draining(seconds: str = "120", **spec: object) -> ClusterBuilder:
    """Return a RayCluster that asks for a drain."""
    cluster = a_cluster("c").group("g", hosts=2)
    return cluster.spec(**spec).annotated(names.ANNOTATION_DRAIN_SECONDS, seconds)


def a_worker(image: str = NEW, **fields: object) -> PodBuilder:
    """Return a worker with the grace period that the API server fills in."""
    container = {"name": "ray-worker", "image": image, "env": [], **fields}
    return (
        a_pod().of("c").worker("g").spec(containers=[container], terminationGracePeriodSeconds=30)
    )


def grace(decided: Decided) -> object:
    return decided.pod["spec"].get("terminationGracePeriodSeconds")


def hook(decided: Decided) -> object:
    """Return the command of `preStop` of Ray's container."""
    lifecycle = decided.pod["spec"]["containers"][0].get("lifecycle") or {}
    return lifecycle.get("preStop", {}).get("exec", {}).get("command")


def test_a_ray_that_drains_on_sigterm_gets_the_variable_and_the_grace_period() -> None:
    decided = decide(a_worker(), draining())
    assert env_of(decided.pod)[names.RAY_DRAIN_TIMEOUT] == "120"
    assert grace(decided) == 150
    assert hook(decided) is None
    assert not decided.answer.warnings


@pytest.mark.parametrize("image", [OLD, UNKNOWN])
def test_an_older_or_unknown_ray_is_asked_by_a_hook_as_well(image: str) -> None:
    decided = decide(a_worker(image), draining())
    assert hook(decided) == ["python3", "-c", HOOK, "120"]
    assert grace(decided) == 150


@pytest.mark.parametrize(("version", "asked"), [("2.56.0", True), ("2.57.0", False), ("x", True)])
def test_the_cluster_says_which_ray_it_is_where_the_image_does_not(
    version: str,
    asked: bool,  # noqa: FBT001 - a parameter
) -> None:
    decided = decide(a_worker(UNKNOWN), draining(rayVersion=version))
    assert (hook(decided) is not None) is asked


def test_the_image_decides_against_the_cluster() -> None:
    assert hook(decide(a_worker(OLD), draining(rayVersion="2.60.0"))) is not None
    assert hook(decide(a_worker(NEW), draining(rayVersion="2.40.0"))) is None


@pytest.mark.parametrize("kind", ["preStop", "postStart"])
def test_a_lifecycle_of_the_user_stays(kind: str) -> None:
    own = {kind: {"exec": {"command": ["sync"]}}}
    decided = decide(a_worker(OLD, lifecycle=own), draining())
    assert decided.pod["spec"]["containers"][0]["lifecycle"] == own
    assert grace(decided) == 150


def test_an_empty_lifecycle_gets_the_hook() -> None:
    assert hook(decide(a_worker(OLD, lifecycle={}), draining())) is not None


def test_a_stop_signal_of_the_user_stays_beside_the_hook() -> None:
    decided = decide(a_worker(OLD, lifecycle={"stopSignal": "SIGUSR1"}), draining())
    assert decided.pod["spec"]["containers"][0]["lifecycle"]["stopSignal"] == "SIGUSR1"
    assert hook(decided) == ["python3", "-c", HOOK, "120"]


def test_a_longer_grace_period_stays_and_a_shorter_one_does_not() -> None:
    longer, shorter = a_worker(), a_worker()
    assert grace(decide(longer.spec(terminationGracePeriodSeconds=600), draining())) == 600
    assert grace(decide(shorter.spec(terminationGracePeriodSeconds=60), draining())) == 150


def test_a_pod_in_a_file_has_the_default_grace_period() -> None:
    pod = a_worker().spec(terminationGracePeriodSeconds=None)
    assert grace(decide(pod, draining())) == 150


def test_a_drain_of_the_user_stays_and_the_grace_period_is_made_for_it() -> None:
    decided = decide(a_worker(OLD).env(names.RAY_DRAIN_TIMEOUT, "30"), draining())
    assert grace(decided) == 150
    own = {"name": names.RAY_DRAIN_TIMEOUT, "value": "300"}
    decided = decide(a_worker(OLD, env=[own]), draining())
    assert env_of(decided.pod)[names.RAY_DRAIN_TIMEOUT] == "300"
    assert (grace(decided), hook(decided)) == (330, ["python3", "-c", HOOK, "300"])


@pytest.mark.parametrize(
    ("value", "drain"),
    [("200000", 200_000), ("90.5", 91), ("1e400", 10**9), ("5m", 120), ("", 120), ("inf", 10**9)],
)
def test_a_drain_of_the_user_is_read_as_ray_reads_it(value: str, drain: int) -> None:
    own = {"name": names.RAY_DRAIN_TIMEOUT, "value": value}
    decided = decide(a_worker(OLD, env=[own]), draining())
    assert (grace(decided), hook(decided)) == (drain + 30, ["python3", "-c", HOOK, str(drain)])


@pytest.mark.parametrize("value", ["0", "0.0", "-1"])
def test_a_user_who_wants_no_drain_gets_none(value: str) -> None:
    own = {"name": names.RAY_DRAIN_TIMEOUT, "value": value}
    decided = decide(a_worker(OLD, env=[own]), draining())
    assert env_of(decided.pod)[names.RAY_DRAIN_TIMEOUT] == value
    assert (grace(decided), hook(decided)) == (30, None)


def test_only_the_first_container_drains() -> None:
    decided = decide(a_worker(OLD).container("sidecar").init("prepare"), draining())
    for other in ("sidecar", "prepare"):
        assert names.RAY_DRAIN_TIMEOUT not in env_of(decided.pod, other)
    assert "lifecycle" not in decided.pod["spec"]["containers"][1]


def test_heads_are_left_as_they_are() -> None:
    head = a_pod().of("c").head().spec(terminationGracePeriodSeconds=30)
    assert decide(head, draining()).patch == []


def test_all_hosts_of_a_replica_drain_alike() -> None:
    first, second = (decide(a_worker(OLD).seat(0, host, "g-xh3hf"), draining()) for host in (0, 1))
    assert (
        (hook(first), grace(first))
        == (hook(second), grace(second))
        == (
            ["python3", "-c", HOOK, "120"],
            150,
        )
    )


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [(0, None, None), (60, None, "60"), (60, "120", "120"), (60, "0", None), (0, "0", None)],
)
def test_the_annotation_stands_above_the_setting(
    setting: int, text: str | None, expected: str | None
) -> None:
    cluster = a_cluster("c").group("g") if text is None else draining(text)
    decided = decide(a_worker(), cluster, Policy(drain_seconds=setting))
    assert env_of(decided.pod).get(names.RAY_DRAIN_TIMEOUT) == expected


def test_a_value_that_is_none_warns_and_changes_nothing() -> None:
    decided = decide(a_worker(OLD), draining("2m"))
    assert "'2m'" in decided.answer.warnings[0]
    assert (grace(decided), hook(decided)) == (30, None)


def test_asking_twice_adds_nothing() -> None:
    once = decide(a_worker(OLD), draining()).pod
    assert decide(once, draining()).patch == []
