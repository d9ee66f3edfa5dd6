"""The reader turns bytes and texts in fields into values with lines, and opens no files."""

import pytest
import yaml

from tests.harness.ray_objects import a_cluster, a_job
from webhook.manifest.documents import text_of
from webhook.manifest.inline import read_map
from webhook.manifest.reader import Manifest, read, read_strictly
from webhook.manifest.yaml_values import PLAIN, ManifestError, scalar


def documents(text: str) -> list[Manifest]:
    return read_strictly("given.yaml", text.encode())


def read_all(text: str) -> list[object]:
    """Return the documents of a text, and the errors in place of the others."""
    items = read("given.yaml", text.encode())
    return [str(item) if isinstance(item, ManifestError) else item.document for item in items]


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
    ("apiVersion: v1\nkind: RayCluster", ""), ("apiVersion: apps/v1\nkind: Pod", ""),
    ("kind: RayCluster", ""), ("apiVersion: 1\nkind: Pod", ""), ("- kind: Pod", ""), ("words", ""),
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
def test_of_a_duplicate_key_the_last_value_counts(text: str) -> None:
    assert read_all(text) == [{"a": 3, "b": 2}]
    with pytest.raises(ManifestError) as caught:
        documents(text)
    assert str(caught.value) == "given.yaml:3: duplicate key 'a', first on line 1"


def test_duplicate_keys_are_those_of_the_object_with_its_lines() -> None:
    text = "x: 1\n---\nkind: List\nitems:\n- a: 1\n- b: {c: 1,\n    c: 2, c: 3}\n  d: 1\n"
    *_, second = [item for item in read("given.yaml", text.encode()) if isinstance(item, Manifest)]
    (duplicate,) = second.duplicates
    assert (duplicate.tokens, duplicate.line, second.line(duplicate.tokens)) == (("b", "c"), 6, 7)


@pytest.mark.parametrize(("text", "values"), [
    ("a: 1\n---\nb: [\n---\nc: 1\n", [{"a": 1}, "given.yaml:4: not YAML", {"c": 1}]),
    ("a: {{ x }}\n---\nc: 1\n", ["given.yaml:1: a key that is not a scalar", {"c": 1}]),
    ("a: 1\n...\n%YAML 1.1\n--- # comment\nb: *x\n--- {c: 1}\n---\n",
     [{"a": 1}, "given.yaml:5: not YAML: found undefined alias *x", {"c": 1}, None]),
    ("# comment\n---\na: 1\n", [{"a": 1}]),
    ("%YAML 1.1\n---\na: |\n  ---\n  ...\n...\n", [{"a": "---\n...\n"}]),
    ('{"a": 1}{"b": 1}\n[1]', [{"a": 1}, {"b": 1}, [1]]),
    ('{"a": 1}\n{"b": [1}\n{\n\t"d": "\\ud83d\\ude00"\n}\n',
     [{"a": 1}, "given.yaml:2: not YAML", {"d": "😀"}]),
    ('{a: [\n{b: 1}], c: 2}\n---\n{"d": 1}\n{"e": 1}',
     [{"a": [{"b": 1}], "c": 2}, {"d": 1}, {"e": 1}]),
    ("{{ a }}: 1\n", ["given.yaml:1: a key that is not a scalar"]),
    (f"a: {'[' * 300}\n---\nb: 1\n", ["given.yaml:1: nested too deeply", {"b": 1}]),
    ("a: &a [*a]\n---\nb: 1\n", ["given.yaml:1: an alias within itself", {"b": 1}]),
])  # fmt: skip
def test_a_broken_document_hides_no_other(text: str, values: list[object]) -> None:
    found = read_all(text)
    assert len(found) == len(values)
    for item, value in zip(found, values, strict=True):
        assert item == value or str(item).startswith(str(value))


@pytest.mark.parametrize("levels", [200, 201])
def test_nesting_is_counted_with_aliases(levels: int) -> None:
    inner, outer = "[" * 99 + "]" * 99, levels - 1 - 99
    (found,) = read_all(f"a: &a {inner}\nb:\n- {'[' * (outer - 1)}*a{']' * (outer - 1)}\n")
    assert isinstance(found, dict) is (levels == 200)
    if levels > 200:
        assert (
            str(found)
            == "given.yaml:1: nested too deeply with its aliases: write at most 200 levels"
        )


def test_a_document_that_is_not_text_hides_no_other() -> None:
    first, second = read("given.yaml", b"a: 1\n\xff: 1\n---\nb: 1\n")
    assert str(first) == "given.yaml:2: not a text file in UTF-8: save it in UTF-8"
    assert isinstance(second, Manifest)
    assert second.line(("b",)) == 4
    with pytest.raises(ManifestError, match=r"given\.yaml:2: not a text file"):
        text_of("given.yaml", b"a: 1\n\xff: 1\n")


RAY = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: a}\nspec: {entrypoint: b}\n"


def indented(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(("head", "spaces", "within", "line"), [
    ("kind: AppWrapper\nspec:\n  components:\n  - template:\n", 6, "spec.components[0].template",
     8),
    ("kind: ManifestWork\nspec:\n  workload:\n    manifests:\n    -\n", 6,
     "spec.workload.manifests[0]", 9),
    ("kind: WorkflowTemplate\nspec:\n  templates:\n  - resource:\n      manifest: |\n", 8,
     "spec.templates[0].resource.manifest", 9),
    ("kind: Bundle\nspec:\n  resources:\n  - content: |\n", 6, "spec.resources[0].content", 8),
    ("kind: List\nitems:\n- kind: AppWrapper\n  spec:\n", 4, "spec", 8),
])  # fmt: skip
def test_nested_ray_objects_are_documents(head: str, spaces: int, within: str, line: int) -> None:
    other, ray = documents(head + indented(RAY, spaces))
    assert (other.kind, ray.kind, ray.within) == ("", "RayJob", within)
    assert ray.line(("spec", "entrypoint")) == line


@pytest.mark.parametrize("text", [
    "kind: Scaler\nspec: {scaleTargetRef: {apiVersion: ray.io/v1, kind: RayCluster}}",
    "kind: Workflow\nspec: {manifest: 'apiVersion: ray.io/v1: {{ x }}'}",
    "kind: ConfigMap\ndata: {manifest: a}",
])  # fmt: skip
def test_references_and_texts_that_are_no_yaml_are_no_documents(text: str) -> None:
    assert len(documents(text)) == 1


def test_an_object_without_a_file_has_no_lines() -> None:
    assert Manifest("made", {"a": 1}).line(("a",)) == 0


def test_aliases_that_stand_for_too_many_values_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ManifestError, match="aliases that stand for more than 10000000 values"):
        documents("\n".join(lines))
    (small,) = documents("\n".join(lines[:4]))
    assert len(small.document) == 4


@pytest.mark.parametrize(("text", "value"), [
    ("yes", True), ("On", True), ("n", False), ("NO", False), ("true", True), ("yEs", "yEs"),
    ("~", None), ("", None), ("null", None), ("12", 12), ("-3", -3), ("0x1F", 31), ("0o17", 15),
    ("017", 15), ("0b11", 3), ("1_000", 1000), ("09", 9.0), ("1:30", "1:30"), ("0b_", "0b_"),
    ("1.5", 1.5), ("1e3", 1000.0), ("1e400", "1e400"), (".5", 0.5), ("1.", 1.0), ("-", "-"),
    ("1.2.3", "1.2.3"), ("2026-01-01", "2026-01-01"),
])  # fmt: skip
def test_plain_scalars_have_the_types_of_yaml_1_1(text: str, value: object) -> None:
    assert scalar(PLAIN, text) == value
    assert type(scalar(PLAIN, text)) is type(value)


TAKEN = [
    "", "~", "---\n...\n", "a: b", "{a: b}}", "a: b\n---\n[", "a: 1\na: 2", "true: x", "1.5: a",
    "a: &b 1\nb: *b", "<<: {a: b}", "<<: [{a: b}, {c: d}]", "a: &x {b: c}\n<<: *x", "'<<': 1",
    "a: !foo b", "a: !!str [b]", "a: !!float 1", "a: !!bool yes", "a: !!binary aGk=", "{a, b}",
    "!!str a: b", '"null": x', "a: 0b_", "%YAML 1.1\n---\na: b", "a: &b 1\nb: &b 2", "a: !!int '5'",
    "a: !!int 0x1F", "a: !!bool 'yes'", "a: !!null ''", "a: !!timestamp 2024-01-01", "a: !!map b",
    "a: !!int [1]", "&a b: 1", "&a b: &c 1\n*a : 2", "!!int 5: a", "a: '.inf'", "a: !!merge x",
]  # fmt: skip
REFUSED = [
    "null: x", "~: 1", ": x", "[a]: b", "? {a: b}\n: c", "<<: 1", "<<: [1]", "a: *b",
    "a: &a {b: *a}", "- a", "x", "a: [", "a: \x07", "%YAML 1.2\n---\na: b", "a: !!int abc",
    "a: !!int 1.5", "a: !!float x", "a: !!bool 5", "a: !!null x", "a: !!timestamp x",
    "a: !!binary $$", "a: !<tag:yaml.org,2002:int> x", "!!float x: a", "!!int a: b", "a: !!int ''",
    "a: .inf", "a: -.Inf", "a: .nan", "a: !!float 1e400", "&a: 1", "a: &x {b: c}\n*x : 1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "is_taken"), [
    *((text, True) for text in TAKEN), *((text, False) for text in REFUSED),
])  # fmt: skip
def test_what_go_refuses_is_refused_and_all_else_is_taken(text: str, is_taken: bool) -> None:
    assert (read_map(text, "a: 1").problem == "") is is_taken


def test_a_problem_has_the_words_of_the_parser_of_kuberay() -> None:
    problem = read_map("env_vars:\n  A: !!int abc", "a: 1").problem
    assert problem == "not YAML: line 2: cannot decode !!str `abc` as a !!int"


def test_a_problem_names_line_and_alias() -> None:
    problem = read_map("ä: ö\nb: [*other, 1]", "a: 1").problem
    assert problem == "not YAML: line 2: found undefined alias *other"
