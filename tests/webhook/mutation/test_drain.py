"""Workers with the annotation drain before they end; values of the user are kept."""

import pytest

from tests.builders import ClusterBuilder, Decided, PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.api import names
from webhook.mutation.pod_lifecycle import HOOK
from webhook.mutation.ray_pod import Policy

OLD, NEW, UNKNOWN = "rayproject/ray:2.56.1", "rayproject/ray:2.57.0", "registry/of/mine:7"


def draining(seconds: str = "120", **spec: object) -> ClusterBuilder:
    cluster = a_cluster("c").group("g", hosts=2)
    return cluster.spec(**spec).opting(drain_seconds=seconds)


def a_worker(image: str = NEW, **fields: object) -> PodBuilder:
    """Return a worker with the grace period that the API server fills in."""
    container = {"name": "ray-worker", "image": image, "env": [], **fields}
    return (
        a_pod().of("c").worker("g").spec(containers=[container], terminationGracePeriodSeconds=30)
    )


def grace(decided: Decided) -> object:
    return decided.pod["spec"].get("terminationGracePeriodSeconds")


def hook(decided: Decided) -> object:
    """Return the seconds in the `preStop` command of the first container, if that is the hook."""
    lifecycle = decided.pod["spec"]["containers"][0].get("lifecycle") or {}
    command = lifecycle.get("preStop", {}).get("exec", {}).get("command") or [None]
    assert len(command) == 1 or command[:3] == ["python3", "-c", HOOK]
    return command[-1]


def own(value: str) -> list[dict[str, str]]:
    return [{"name": names.RAY_DRAIN_TIMEOUT, "value": value}]


@pytest.mark.parametrize(("pod", "version", "expected"), [
    (a_worker(), None, (150, None)),  # it drains on SIGTERM
    (a_worker(OLD), None, (150, "120")), (a_worker(UNKNOWN), None, (150, "120")),
    (a_worker(UNKNOWN), "2.56.0", (150, "120")), (a_worker(UNKNOWN), "2.57.0", (150, None)),
    (a_worker(UNKNOWN), "x", (150, "120")),
    (a_worker(OLD), "2.60.0", (150, "120")),  # the image decides
    (a_worker(NEW), "2.40.0", (150, None)),
    *((a_worker(OLD, lifecycle=lifecycle), None, (150, "120"))
      for lifecycle in ({}, {"stopSignal": "SIGUSR1"})),
    (a_worker().spec(terminationGracePeriodSeconds=600), None, (600, None)),
    (a_worker().spec(terminationGracePeriodSeconds=60), None, (150, None)),
    (a_worker().spec(terminationGracePeriodSeconds=None), None, (150, None)),
    (a_worker(OLD, env=own("300")), None, (330, "300")),
    (a_worker(OLD, env=own("200000")), None, (200_030, "200000")),
    (a_worker(OLD, env=own("90.5")), None, (121, "91")),
    (a_worker(OLD, env=own("1e400")), None, (10**9 + 30, str(10**9))),
    (a_worker(OLD, env=own("inf")), None, (10**9 + 30, str(10**9))),
    (a_worker(OLD, env=own("5m")), None, (150, "120")),
    (a_worker(OLD, env=own("")), None, (150, "120")),
    (a_worker(OLD, env=own("0")), None, (30, None)),  # no drain
    (a_worker(OLD, env=own("0.0")), None, (30, None)),
    (a_worker(OLD, env=own("-1")), None, (30, None)),
])  # fmt: skip
def test_a_worker_has_time_to_drain_and_an_older_ray_is_asked_by_a_hook(
    pod: PodBuilder, version: str | None, expected: tuple[int, str | None]
) -> None:
    decided = decide(pod, draining() if version is None else draining(rayVersion=version))
    assert (grace(decided), hook(decided)) == expected
    before = {each["name"]: each["value"] for each in pod.build()["spec"]["containers"][0]["env"]}
    kept = before.get(names.RAY_DRAIN_TIMEOUT) or "120"
    assert env_of(decided.pod)[names.RAY_DRAIN_TIMEOUT] == kept
    assert not decided.answer.warnings


@pytest.mark.parametrize("kind", ["preStop", "postStart"])
def test_a_lifecycle_of_the_user_stays(kind: str) -> None:
    given = {kind: {"exec": {"command": ["sync"]}}}
    decided = decide(a_worker(OLD, lifecycle=given), draining())
    assert decided.pod["spec"]["containers"][0]["lifecycle"] == given
    assert grace(decided) == 150


@pytest.mark.parametrize(("setting", "text", "expected"), [
    (0, None, None), (60, None, "60"), (60, "120", "120"), (60, "0", None), (0, "0", None),
])  # fmt: skip
def test_annotations_beat_the_setting(setting: int, text: str | None, expected: str | None) -> None:
    cluster = a_cluster("c").group("g") if text is None else draining(text)
    decided = decide(a_worker(), cluster, Policy(drain_seconds=setting))
    assert env_of(decided.pod).get(names.RAY_DRAIN_TIMEOUT) == expected


def test_a_value_that_is_none_warns_and_changes_nothing() -> None:
    decided = decide(a_worker(OLD), draining("2m"))
    assert "'2m'" in decided.answer.warnings[0]
    assert (grace(decided), hook(decided)) == (30, None)
