"""Data from the API server: any content is parsed or malformed, and versions compare."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.objects import a_pod, a_raycluster
from webhook.cache.serve_stores import pods_in, rayclusters_in
from webhook.cache.store import number
from webhook.groups.identity import HostIdentity
from webhook.kubeclient.errors import ApiError

PODS, RAYCLUSTERS = pods_in("default").codec, rayclusters_in("default").codec
OBJECTS = [(PODS, a_pod("pod-0", HostIdentity(0, 0, "tpu-x"))), (RAYCLUSTERS, a_raycluster())]
LINES = [
    (codec, json.dumps({"type": kind, "object": found}).encode())
    for codec, found in OBJECTS
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
]


@pytest.mark.parametrize(
    ("version", "value"), [("", 0), ("0", 0), ("17", 17), ("18446744073709551615", 2**64 - 1)]
)
def test_a_version_is_its_number(version: str, value: int) -> None:
    assert number(version) == value


@pytest.mark.parametrize("version", ["x", "-1", "1.5", "٣", "9" * 21, "9" * 5000])
def test_what_is_no_version_is_none(version: str) -> None:
    assert number(version) == 0


KEYS = st.sampled_from(
    ["metadata", "spec", "labels", "name", "uid", "resourceVersion", "workerGroupSpecs", "items"]
)
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9),
    lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(objects=st.lists(VALUES, max_size=4))
def test_a_list_of_anything_is_read_without_invalid_or_garbled(objects: list[object]) -> None:
    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": objects}).encode()
    for codec in (PODS, RAYCLUSTERS):
        try:
            [(meta, items)] = codec.portions(body)
        except ApiError:
            continue
        assert meta.resource_version == "7"
        assert len(items) <= len(objects)
