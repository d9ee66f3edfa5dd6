"""The slice that the hosts of a replica form, for each way to define it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.accelerators.slices import Slice, TopologyError, read_slice
from webhook.api import names

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
