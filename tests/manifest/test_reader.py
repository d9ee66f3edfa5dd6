"""The reader turns bytes into documents with line numbers, and opens no files."""

import pytest
import yaml

from tests.validation.builders import a_cluster, a_job
from webhook.manifest.reader import Manifest, read
from webhook.manifest.yaml_values import ManifestError


def documents(text: str) -> list[Manifest]:
    return list(read("given.yaml", text.encode()))


def test_quoted_and_tagged_scalars_keep_their_type() -> None:
    (found,) = documents("a: 'yes'\nb: !!str 5\nc: \"1\"\nd: !!int 5\ne: |\n  5\n")
    assert found.document == {"a": "yes", "b": "5", "c": "1", "d": 5, "e": "5\n"}


def test_values_are_those_that_pyyaml_reads() -> None:
    value = a_job(a_cluster().group(hosts=4).tpu("4x4", 4).env("A", "yes")).build()
    (found,) = documents(yaml.safe_dump(value))
    assert found.document == value


@pytest.mark.parametrize(("head", "kind"), [
    ("apiVersion: ray.io/v1\nkind: RayCluster", "RayCluster"),
    ("apiVersion: ray.io/v1alpha1\nkind: RayJob", "RayJob"),
    ("apiVersion: v1\nkind: Pod", "Pod"),
    ("apiVersion: ray.io/v2\nkind: RayCluster", ""),
    ("apiVersion: v1\nkind: RayCluster", ""),
    ("apiVersion: apps/v1\nkind: Pod", ""),
    ("kind: RayCluster", ""),
    ("apiVersion: 1\nkind: Pod", ""),
    ("- kind: Pod", ""),
    ("words", ""),
])  # fmt: skip
def test_only_pods_and_ray_objects_of_known_versions_have_a_kind(head: str, kind: str) -> None:
    (found,) = documents(head)
    assert found.kind == kind


def test_a_list_gives_its_items_with_their_lines() -> None:
    first, second = documents("kind: List\nitems:\n- a: 1\n- kind: List\n  items: [{b: 2}]\n")
    assert (first.document, first.line(("a",))) == ({"a": 1}, 3)
    assert (second.document, second.line(("b",))) == ({"b": 2}, 5)


def test_items_of_a_list_of_one_kind_have_its_version_and_kind() -> None:
    listed = "apiVersion: ray.io/v1\nkind: RayClusterList\nitems:\n- metadata: {}\n- kind: RayJob\n"
    assert [found.kind for found in documents(listed)] == ["RayCluster", "RayJob"]


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", '{"a": 1,\n"b": 2,\n"a": 3}'])
def test_a_key_that_stands_twice_is_refused_at_the_second(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        documents(text)
    assert str(caught.value) == "given.yaml:3: the key 'a' stands on line 1 already"


def test_an_object_without_a_file_has_no_lines() -> None:
    assert Manifest("made", {"a": 1}).line(("a",)) == 0


def test_aliases_that_stand_for_too_many_values_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ManifestError, match="aliases that stand for more than 10000000 values"):
        [*read("bomb.yaml", "\n".join(lines).encode())]
    (small,) = read("small.yaml", "\n".join(lines[:4]).encode())
    assert len(small.document) == 4
