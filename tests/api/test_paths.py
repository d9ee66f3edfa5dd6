"""Pointers are escaped, and messages contain dotted paths."""

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.api.formats import dotted, escape, pointer


@pytest.mark.parametrize(
    ("token", "escaped"),
    [("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01"), ("", ""), ("a.b", "a.b")],
)
def test_tilde_and_slash_are_escaped_in_that_order(token: str, escaped: str) -> None:
    assert escape(token) == escaped


def test_a_pointer_joins_names_and_indices() -> None:
    assert pointer("spec", "containers", 0, "env") == "/spec/containers/0/env"
    assert pointer("metadata", "labels", "ray.io/group") == "/metadata/labels/ray.io~1group"
    assert pointer() == ""


def test_people_see_the_path_as_kubernetes_writes_it() -> None:
    assert dotted("/spec/containers/0/env/12") == "spec.containers[0].env[12]"
    assert dotted("/metadata/labels/ray.io~1group") == "metadata.labels.ray.io/group"


@given(st.text(max_size=8))
def test_an_independent_library_finds_the_key_that_was_escaped(key: str) -> None:
    patch = [{"op": "add", "path": pointer(key), "value": 1}]
    assert jsonpatch.apply_patch({}, patch) == {key: 1}
