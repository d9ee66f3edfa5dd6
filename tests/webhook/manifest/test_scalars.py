"""Plain scalars have the types that Kubernetes assigns."""

import pytest

from webhook.manifest.yaml_values import PLAIN, scalar


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
