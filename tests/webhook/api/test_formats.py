"""Names, paths, printable text, marks and instants have the formats that their readers require."""

import ast
import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.work import run_in_own_process
from webhook.api import names
from webhook.api.formats import (
    escape_json,
    format_pointer,
    in_line,
    is_dns_label,
    is_dns_subdomain,
    is_image,
    is_label_value,
    is_qualified_name,
    many_lines,
    mark,
    nearest,
    one_line,
    pointer,
    read_mark,
    shorten,
)
from webhook.api.release import parse_release
from webhook.api.times import seconds_of, text_of
from webhook.controller.repair.plan import INCOMPLETE, LOST, RESTARTED

UID = "3f0b2c1e-5a7d-4a57-9c0e-0d3b6e8a1f42"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"


def test_only_the_beginning_of_a_text_of_another_program_is_read() -> None:
    assert in_line(" a\n b ") == "a b"
    assert in_line("a" + " " * 1_000_000 + "b") == "a"


FORMATS: list[tuple[Callable[[str], bool], list[str], list[str]]] = [
    (is_dns_label, ["a", "0", "a-b", "tpu-group-0-0", "x" * 63],
     ["", "-a", "a-", "A", "a.b", "a_b", "x" * 64, "a\n", "\u00e9", "a b", "\u0664"]),
    (is_label_value, ["", "a", "A.b_c-d", "0", "x" * 63],
     ["-a", "a-", ".a", "a_", "a b", "a/b", "x" * 64, "a\n", "\u00e9"]),
    (is_dns_subdomain, ["a", f"{'a.' * 126}a"], ["", ".a", "a..b", f"{'a.' * 126}aa"]),
    (is_qualified_name,
     ["a", "kubernetes.io/hostname", "cloud.google.com/gke-nodepool", "A_b.c", f"{'a.' * 100}b/c",
      "x" * 63],
     ["", "/", "a/", "/a", "a/b/c", "A/b", "-a", "a-", "a b", "x" * 64, f"{'a' * 254}/b", "a..b/c",
      "a\n", "k=v", "b\u00fc"]),
]  # fmt: skip


@pytest.mark.parametrize(("is_one", "right", "wrong"), FORMATS)
def test_a_name_is_one_or_not(
    is_one: Callable[[str], bool], right: list[str], wrong: list[str]
) -> None:
    assert [text for text in right if not is_one(text)] == []
    assert [text for text in wrong if is_one(text)] == []


def memory_of_long_texts() -> int:
    tracemalloc.start()
    for read, repeated in ((is_image, "a/"), (is_qualified_name, "a."), (parse_release, "1.")):
        read(repeated * 100_000)
    return tracemalloc.get_traced_memory()[1]


def test_the_repetitions_in_a_text_take_little_memory() -> None:
    assert run_in_own_process(memory_of_long_texts) < 4_000_000


def test_a_pointer_joins_names_and_indices_and_people_see_it_as_kubernetes_writes_it() -> None:
    assert pointer("spec", "containers", 0, "env") == "/spec/containers/0/env"
    assert pointer() == ""
    assert format_pointer("/spec/containers/0/env/12") == "spec.containers[0].env[12]"
    assert format_pointer("/metadata/labels/ray.io~1group") == "metadata.labels.ray.io/group"


@given(st.text(max_size=8) | st.sampled_from(["a/b", "a~b", "~1", ""]))
def test_an_independent_library_finds_the_key_that_was_escaped(key: str) -> None:
    patch = [{"op": "add", "path": pointer(key), "value": 1}]
    assert jsonpatch.apply_patch({}, patch) == {key: 1}


@pytest.mark.parametrize(("text", "most", "short"), [
    ("abcdefghi", 9, "abcdefghi"), ("abcdefghij", 9, "abcde…hij"),
])  # fmt: skip
def test_the_middle_of_a_long_text_is_left_out(text: str, most: int, short: str) -> None:
    assert shorten(text, most) == short


def test_the_nearest_name_is_that_of_the_most_common_characters() -> None:
    assert nearest("replica", ("replicas", "minReplicas", "scaleStrategy")) == "replicas"
    assert nearest("image", ("replicas", "minReplicas")) == ""
    assert nearest("rep", ("replicas",)) == ""
    assert nearest("rep", ("replicas",), 0.5) == "replicas"
    assert nearest("a" * 64 + "b" * 1000, ("a" * 64,), 1) == "a" * 64
    assert nearest("a" * 63 + "b" * 1000, ("a" * 64,), 1) == ""
    assert nearest("a" * 65, ("a" * 65,), 1) == ""


@pytest.mark.parametrize(
    "character", [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *BIDI, "\u2028", "\u2029"]
)
def test_what_a_terminal_would_obey_becomes_a_space(character: str) -> None:
    assert one_line(f"a{character}b") == "a b"


@given(st.text(), st.sampled_from([*BIDI, "\x7f", "\x9b", "\U000e0001"]))
def test_json_has_the_texts_that_were_given_and_only_printable_ones(text: str, hidden: str) -> None:
    escaped = escape_json(json.dumps([text + hidden], ensure_ascii=False))
    assert json.loads(escaped) == [text + hidden]
    assert escaped.isascii()
    assert escaped.isprintable()


def test_what_people_write_stays_and_lines_of_a_text_stay_lines() -> None:
    assert one_line("■ Größe 数 → ok") == "■ Größe 数 → ok"
    assert many_lines("a\x1b[2J\nb\r") == "a [2J\nb "


@pytest.mark.parametrize("reason", [LOST, RESTARTED, INCOMPLETE])
def test_a_mark_is_read_on_its_pod_alone_and_is_a_label_value(reason: str) -> None:
    text = mark(reason, UID)
    assert is_label_value(text)
    assert read_mark(text, UID) == reason
    for other in ("", "another", UID[1:]):
        assert read_mark(text, other) == ""


@pytest.mark.parametrize("text", ["", LOST, UID, f"{LOST}{UID}"])
def test_what_does_not_end_with_the_uid_is_no_mark(text: str) -> None:
    assert read_mark(text, UID) == read_mark(text, "") == ""


CODE = Path(names.__file__).parents[1]


def test_every_name_is_read_by_something() -> None:
    read = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in CODE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert [name for name in vars(names) if name.isupper() and name not in read] == []


@pytest.mark.parametrize(("text", "seconds"), [
    ("1970-01-02T00:00:01Z", 86_401.0),
    ("2026-11-21T10:00:00.250000Z", 1_795_255_200.25),
    ("2026-11-21T10:00:00.250000000Z", 1_795_255_200.25),
    ("0001-01-01T00:00:00Z", -62_135_596_800.0),
])  # fmt: skip
def test_an_instant_is_so_many_seconds_after_the_epoch(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", [None, "", "now", "0000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-1-1T00:00Z"]
)
def test_anything_else_is_none(text: str | None) -> None:
    assert seconds_of(text) is None


@given(st.integers(0, 253402300799))
def test_an_instant_is_written_as_it_is_read(seconds: int) -> None:
    text = text_of(seconds)
    assert seconds_of(text) == seconds
    assert text == f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("seconds", [None, -1.0, 253402300800.0, 1e300, float("nan")])
def test_what_no_instant_has_is_not_written(seconds: float | None) -> None:
    assert text_of(seconds) is None
