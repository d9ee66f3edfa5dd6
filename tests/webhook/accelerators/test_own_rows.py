"""Devices and profiles in settings: which values are valid, and that pods receive them."""

from collections.abc import Iterator

import pytest

from tests.builders import a_cluster, a_pod, decide, env_of
from webhook.accelerators.devices import DEVICES, add_device, own_device
from webhook.accelerators.profiles import BY_NAME, PROFILES, add_profile, own_profile
from webhook.api import names
from webhook.groups import annotations


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Leave the tables as they were."""
    devices, profiles = [*DEVICES], {**BY_NAME}
    yield
    DEVICES[:] = devices
    add_device(devices[-1])  # forgets what was found of resources
    BY_NAME.clear()
    BY_NAME.update(profiles)


def test_hosts_of_an_own_device_meet_by_an_own_profile() -> None:
    add_device(own_device("HPU", ["habana.ai/gaudi"]))
    variables = {
        "HCCL_COMM_ID": "{MASTER_ADDR}:5555",
        "MY_RANK": "host-{rank}",
        "MY_SIZE": "{hosts}x{devices}",
    }
    add_profile(own_profile("fabric", variables))
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.annotated(names.ANNOTATION_PROFILES, "fabric")
    pod = a_pod().worker("g").of("c").resource("habana.ai/gaudi", "8").identity(0, 1, "g-xh3hf")
    env = env_of(decide(pod, cluster).pod)
    assert env["HCCL_COMM_ID"] == "g-0-0.c-headless.team.svc:5555"
    assert (env["MY_RANK"], env["MY_SIZE"]) == ("host-1", "2x8")
    assert annotations.PROFILES.problem("fabric") == ""


def test_claims_of_an_own_device_have_no_number() -> None:
    add_device(own_device("HPU", ["hpus"]))
    add_profile(own_profile("fabric", {"SIZE": "{devices}"}))
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.annotated(names.ANNOTATION_PROFILES, "fabric")
    pod = a_pod().worker("g").of("c").build()
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "all-hpus"}]}
    env = env_of(decide(pod, cluster).pod)
    assert env[names.NNODES] == "2"
    assert "SIZE" not in env


@pytest.mark.parametrize(("name", "variables", "complaint"), [
    ("None!", {}, "not a name of a profile"),
    ("none", {}, "not a name of a profile"),
    (PROFILES[0].name, {}, "exists"),
    ("own", {"A": "{hots}"}, "did you mean hosts"),
    ("own", {"A": "{nowhere_at_all}"}, "known are hosts, rank"),
    ("own", {"A": "{rank} of {hosts}"}, "stands beside no other"),
    ("own", {"A": "{"}, "braces are for names"),
    ("own", {"A B": "1"}, "no variable that a profile can set"),
    ("own", {"WORLD_SIZE": "{hosts}"}, "no variable that a profile can set"),
])  # fmt: skip
def test_an_invalid_profile_says_why(name: str, variables: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        own_profile(name, variables)


@pytest.mark.parametrize(("name", "keys", "complaint"), [
    ("GPU", ["example.com/x"], "exists"),
    ("mine", ["nvidia.com/gpu"], "is GPU already"),
    ("mine", ["a/b/c"], "not an extended resource"),
])  # fmt: skip
def test_a_device_that_cannot_be_says_why(name: str, keys: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        own_device(name, keys)
