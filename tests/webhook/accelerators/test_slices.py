"""The slice that the hosts of a replica form, for each way to define it, and its topology."""

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.accelerators.slices import (
    LISTED,
    Slice,
    TopologyError,
    accelerator_type,
    chips_of,
    generation_of,
    hosts_of,
    is_v7x,
    list_topologies,
    parse_topology,
    read_slice,
)
from webhook.api import names


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


@pytest.mark.parametrize(("generation", "widths", "depths"), [
    ("v4", "4 8 12", "4 8 12 16"), ("v5p", "4 8 12 16", "4 8 12 16 20 24"),
])  # fmt: skip
def test_ray_lists_cubes_of_all_sizes(generation: str, widths: str, depths: str) -> None:
    sizes = product(widths.split(), widths.split(), depths.split())
    cubes = {"2x2x1", "2x2x2", "2x2x4", "2x4x4", *map("x".join, sizes)}
    assert LISTED[generation] == set(map(parse_topology, cubes))


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


V6E = {names.NODE_TPU_ACCELERATOR: "tpu-v6e-slice"}
V7X = {names.NODE_TPU_ACCELERATOR: "tpu7x"}
BLOCK = "cloud.google.com/gce-topology-block"
PARTITION = "cloud.google.com/gke-tpu-partition-{}-id"


def selecting(topology: str, accelerator: str = "tpu-v6e-slice") -> dict[str, str]:
    return {names.NODE_TPU_ACCELERATOR: accelerator, names.NODE_TPU_TOPOLOGY: topology}


def named(topology: str) -> dict[str, str]:
    return {names.ANNOTATION_SLICE_TOPOLOGY: topology}


@pytest.mark.parametrize(("annotated", "selected", "accelerator", "expected"), [
    (None, "4x4", "tpu-v6e-slice", ("4x4", "", True)),
    ("", "4x4", "tpu-v6e-slice", ("4x4", "", True)),
    ("4x4", "4x4", "tpu-v6e-slice", ("4x4", "", True)),
    ("2x4", "4x4", "tpu-v6e-slice", ("2x4", "4x4", False)),
    ("4x4x8", "4x4x8", "tpu7x", ("4x4x8", "", False)),
])  # fmt: skip
def test_the_annotation_names_the_slice_else_the_selector_and_v7x_may_span_pools(
    annotated: str | None, selected: str, accelerator: str, expected: tuple[str, str, bool]
) -> None:
    annotations = {} if annotated is None else named(annotated)
    found = read_slice(annotations, selecting(selected, accelerator), 16, placed=False)
    assert (found.topology, found.parent, found.owns_pool) == expected


@pytest.mark.parametrize(("annotation", "value", "selector", "chips", "topology"), [
    (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, PARTITION.format("2x2x4"), V7X, 16, "2x2x4"),
    (names.KUEUE_REQUIRED_TOPOLOGY, "cloud.google.com/gke-tpu-slice-2x4-id", V6E, 8, "2x4"),
    (names.KUEUE_REQUIRED_TOPOLOGY, "cloud.google.com/gke-tpu-slice-4x4-id", V6E, 16, "4x4"),
    (names.KUEUE_REQUIRED_TOPOLOGY, "cloud.google.com/gke-tpu-slice-2x8-id", V6E, 16, "2x8"),
    (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, PARTITION.format("4x4x4"), V7X, 128, "4x4x8"),
    (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, BLOCK, V7X, 16, "2x2x4"),
    (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, BLOCK, V7X, 192, ""),
    (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, BLOCK, V6E, 16, ""),
    (names.KUEUE_UNCONSTRAINED_TOPOLOGY, "true", V6E, 8, "2x4"),
    (names.KUEUE_UNCONSTRAINED_TOPOLOGY, "true", {}, 8, ""),
])  # fmt: skip
def test_where_kueue_forms_the_slice_it_follows_from_the_level_or_from_the_chips_or_nobody_knows(
    annotation: str, value: str, selector: dict[str, str], chips: int, topology: str
) -> None:
    found = read_slice({annotation: value}, selector, chips, placed=True)
    assert (found.topology, found.placed, found.owns_pool) == (topology, True, False)


def test_without_kueue_nothing_is_made_up() -> None:
    assert read_slice({}, V6E, 8, placed=False).topology == ""


@pytest.mark.parametrize(("part", "whole", "too_large"), [
    ("2x4", "4x4", False), ("4x4", "2x8", True), ("2x2", "2x2x2", True), ("2x2x1", "4x4x4", False),
    ("4x4", "4x4", False),
])  # fmt: skip
def test_a_sub_slice_fits_in_every_dimension(part: str, whole: str, too_large: bool) -> None:
    assert read_slice(named(part), selecting(whole), 8, placed=False).too_large == too_large


@pytest.mark.parametrize(("part", "whole"), [("2x", "4x4"), ("2x4", "4x")])
def test_what_cannot_be_read_cannot_be_compared(part: str, whole: str) -> None:
    with pytest.raises(TopologyError):
        _ = read_slice(named(part), selecting(whole), 8, placed=False).too_large


@given(
    st.dictionaries(
        st.sampled_from([names.ANNOTATION_SLICE_TOPOLOGY, *names.KUEUE_TOPOLOGIES]),
        st.text(max_size=60),
    ),
    st.dictionaries(
        st.sampled_from([names.NODE_TPU_ACCELERATOR, names.NODE_TPU_TOPOLOGY]), st.text(max_size=20)
    ),
    st.integers(-1, 10_000),
    st.booleans(),
)
def test_whatever_people_write_is_some_slice(
    annotations: dict[str, str], selector: dict[str, str], chips: int, placed: bool
) -> None:
    found = read_slice(annotations, selector, chips, placed=placed)
    assert isinstance(found, Slice)
    assert (
        found.readable
        or not found.topology
        or "x" not in found.topology
        or found.topology in {*annotations.values(), *selector.values()}
    )
