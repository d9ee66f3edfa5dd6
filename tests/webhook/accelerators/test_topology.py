"""Topology arithmetic is strict: a mismatch gives a reason and is never rounded down."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.accelerators.slices import (
    LISTED,
    TopologyError,
    accelerator_type,
    chips_of,
    generation_of,
    hosts_of,
    is_v7x,
    list_topologies,
    parse_topology,
)


@pytest.mark.parametrize("text", [
    "2x", "x2", "0x4", "4x0", "2x-2", "-2x2", "2x2x2x2", "2", "", "x", "2X2", "2x 2", " 2x2",
    "2x2\n", "2x2.0", "02x2", "+2x2", "2*2", "2x2x", "\u0662x\u0662", "\u00b2x2", "2xx2",
    "999999x2", "auto",
])  # fmt: skip
def test_anything_else_is_no_topology_and_the_reason_quotes_it(text: str) -> None:
    with pytest.raises(TopologyError, match="is not a TPU topology") as caught:
        parse_topology(text)
    assert repr(text) in str(caught.value)


FLAT = "1x1 2x2 2x4 2x8 4x4 4x8 8x8 8x16 16x16"


@pytest.mark.parametrize(("generation", "topologies"), [
    ("v5litepod", FLAT), ("v6e", FLAT),
    ("tpu7x", "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16"),
])  # fmt: skip
def test_ray_lists_these_topologies(generation: str, topologies: str) -> None:
    assert LISTED[generation] == set(map(parse_topology, topologies.split()))


@pytest.mark.parametrize(("topology", "chips"), [("2x2", 0), ("2x2", -4), ("2x", 4)])
def test_a_host_without_chips_and_no_topology_have_no_hosts(topology: str, chips: int) -> None:
    with pytest.raises(TopologyError):
        hosts_of(topology, chips)
    assert chips_of(topology) == (4 if topology == "2x2" else 0)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=3), st.integers(1, 16))
def test_hosts_times_chips_is_the_slice_or_no_hosts_exist(sizes: list[int], chips: int) -> None:
    text = "x".join(map(str, sizes))
    try:
        hosts = hosts_of(text, chips)
    except TopologyError:
        assert prod(sizes) % chips
    else:
        assert hosts * chips == prod(sizes)


@pytest.mark.parametrize(("accelerator", "topology", "kind"), [
    ("tpu-v4-podslice", "2x2x2", "v4-16"),
    ("tpu-v5-lite-podslice", "4x4", "v5litepod-16"),
    ("tpu-v5-lite-device", "2x4", "v5litepod-8"), ("tpu-v5p-slice", "2x2x4", "v5p-32"),
    ("tpu-v6e-slice", "16x16", "v6e-256"), ("tpu7x", "2x2x1", "tpu7x-8"),
    ("tpu7x-standard-4t", "2x2x4", "tpu7x-32"),
])  # fmt: skip
def test_accelerator_types_count_tensor_cores(accelerator: str, topology: str, kind: str) -> None:
    assert accelerator_type(accelerator, chips_of(topology)) == kind


@pytest.mark.parametrize(
    "accelerator", ["", "tpu-v9-slice", "nvidia-h100", "TPU-V4-PODSLICE", "v4"]
)
def test_an_unknown_accelerator_has_no_type(accelerator: str) -> None:
    assert generation_of(accelerator) is None
    assert accelerator_type(accelerator, 4) is None
    assert not is_v7x(accelerator)


@pytest.mark.parametrize(("accelerator", "chips", "listed"), [
    ("tpu7x", 16, ("2x2x4",)), ("tpu7x", 64, ("4x4x4",)), ("tpu7x", 192, ()),
    ("tpu-v4-podslice", 4, ("2x2x1",)), ("tpu-v4-podslice", 8, ("2x2x2",)),
    ("tpu-v4-podslice", 32, ("2x4x4",)), ("tpu-v4-podslice", 64, ("4x4x4",)),
    ("tpu-v4-podslice", 80, ()),
    ("tpu-v6e-slice", 16, ("2x8", "4x4")), ("tpu-v6e-slice", 8, ("2x4",)), ("tpu-v9-slice", 8, ()),
    ("", 8, ()),
])  # fmt: skip
def test_chips_have_their_topologies(accelerator: str, chips: int, listed: tuple[str, ...]) -> None:
    assert tuple(list_topologies(generation_of(accelerator), chips)) == listed
