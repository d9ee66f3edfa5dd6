"""Names match the formats that the API server requires."""

import pytest

from webhook.api.formats import (
    LABEL_VALUE_ADVICE,
    is_dns_label,
    is_label_value,
    is_qualified_name,
)


@pytest.mark.parametrize("text", ["a", "0", "a-b", "tpu-group-0-0", "x" * 63])
def test_a_dns_label_is_one(text: str) -> None:
    assert is_dns_label(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "a-", "A", "a.b", "a_b", "x" * 64, "a\n", "\u00e9", "a b", "\u0664"]
)
def test_anything_else_is_no_dns_label(text: str) -> None:
    assert not is_dns_label(text)


@pytest.mark.parametrize("text", ["", "a", "A.b_c-d", "0", "x" * 63])
def test_a_label_value_may_be_empty_and_have_dots_and_upper_case(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["-a", "a-", ".a", "a_", "a b", "a/b", "x" * 64, "a\n", "\u00e9"])
def test_anything_else_is_no_label_value(text: str) -> None:
    assert not is_label_value(text)


def test_the_advice_for_a_label_value_is_a_whole_sentence() -> None:
    assert LABEL_VALUE_ADVICE == (
        "use up to 63 letters, digits, '-', '_' and '.'; letter or digit at both ends"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "kubernetes.io/hostname",
        "cloud.google.com/gke-nodepool",
        "A_b.c",
        f"{'a.' * 100}b/c",
        "x" * 63,
    ],
)
def test_a_qualified_name_may_have_a_dns_prefix(text: str) -> None:
    assert is_qualified_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "A/b",
        "-a",
        "a-",
        "a b",
        "x" * 64,
        f"{'a' * 254}/b",
        "a..b/c",
        "a\n",
        "k=v",
        "b\u00fc",
    ],
)
def test_anything_else_is_no_qualified_name(text: str) -> None:
    assert not is_qualified_name(text)
