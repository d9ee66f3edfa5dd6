"""Devices: resource names, and the number of devices of a host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.accelerators.devices import (
    DEVICES,
    GPU,
    IDENTITIES,
    TPU,
    Counts,
    Device,
    count_devices,
    device_of,
    devices_of_host,
)
from webhook.accelerators.profiles import PROFILES, RENDEZVOUS, Setting
from webhook.api import names

Amounts = dict[str, int] | None
HOLES = ("hosts", "rank", "master", "devices")
COUNTS = st.dictionaries(st.sampled_from([device.name for device in DEVICES]), st.integers(1, 8))


@pytest.mark.parametrize(("resource", "device"), [
    ("google.com/tpu", TPU), ("nvidia.com/gpu", GPU), ("amd.com/gpu", GPU),
    ("nvidia.com/mig-1g.5gb", GPU), ("example.com/gpu", GPU), ("nvidia.com/gpu.count", None),
    ("vpc.amazonaws.com/efa", None), ("cpu", None), ("memory", None), ("", None),
    ("nvidia.com/gpumem", None),
])  # fmt: skip
def test_a_resource_is_one_device_or_none(resource: str, device: Device | None) -> None:
    assert device_of(resource, DEVICES) is device


def test_limits_count_else_requests() -> None:
    def number(_: str, amount: int) -> int:
        return amount

    def counted(limits: Amounts, requests: Amounts) -> Counts:
        return count_devices(DEVICES, limits, requests, number)

    requests = {"google.com/tpu": 1, "nvidia.com/gpu": 2, "cpu": 8}
    assert counted({"google.com/tpu": 4}, requests) == {TPU.name: 4, GPU.name: 2}
    assert counted({"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 2}, None) == {GPU.name: 3}
    assert counted({"google.com/tpu": 0}, None) == {}
    assert counted(None, None) == {}


@pytest.mark.parametrize(("main", "inits", "chips"), [
    ([4], [], 4), ([4, 4], [], 8), ([4], [(4, False)], 4), ([4], [(8, False)], 8),
    ([4], [(4, True)], 8), ([4], [(1, True), (4, False)], 5), ([4], [(4, False), (1, True)], 5),
    ([2], [(1, True), (4, False)], 5), ([2], [(4, False), (1, True)], 4),
    ([], [(2, False), (3, False)], 3),
])  # fmt: skip
def test_devices_used_at_once(main: list[int], inits: list[tuple[int, bool]], chips: int) -> None:
    counts: list[Counts] = [{TPU.name: number} for number in main]
    before: list[tuple[Counts, bool]] = [({TPU.name: number}, sidecar) for number, sidecar in inits]
    assert devices_of_host(counts, before) == {TPU.name: chips}


@given(st.lists(COUNTS, max_size=4), st.lists(st.tuples(COUNTS, st.booleans()), max_size=4))
def test_devices_have_two_bounds(main: list[Counts], inits: list[tuple[Counts, bool]]) -> None:
    host = devices_of_host(main, inits)
    every = [*main, *(counts for counts, _ in inits)]
    for device in DEVICES:
        wanted = [counts.get(device.name, 0) for counts in every]
        assert max(wanted, default=0) <= host.get(device.name, 0) <= sum(wanted)


def test_every_identity_is_a_variable_that_the_webhook_writes() -> None:
    known = {value for name, value in vars(names).items() if name == value}
    assert IDENTITIES.keys() <= known


def settings() -> list[Setting]:
    return [setting for profile in (RENDEZVOUS, *PROFILES) for setting in profile.settings]


def test_the_rank_of_a_host_is_always_an_identity() -> None:
    ranks = {setting.variable for setting in settings() if "rank" in setting.holes}
    assert ranks
    assert ranks <= IDENTITIES.keys()


def test_a_value_refers_to_a_rank_at_its_end_only() -> None:
    for setting in settings():
        assert setting.value.count("{rank}") == setting.value.endswith("{rank}"), setting.variable


def test_a_profile_refers_to_no_variable_that_comes_later() -> None:
    own = [each.variable for each in RENDEZVOUS.settings]
    for profile in PROFILES:
        seen = {"shape", "processes"} if profile.of_slice else {*HOLES, *own}
        for setting in profile.settings:
            assert setting.holes <= seen, setting.variable
            seen.add(setting.variable)
