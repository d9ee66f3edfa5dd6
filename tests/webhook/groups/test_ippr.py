"""The annotation `ray.io/ippr` is parsed as Ray parses it."""

import pytest

from webhook.groups.ippr import Maxima, parse_ippr, read_ippr

LISTED = '"groups": {"g": {"max-cpu": 8, "max-memory": "8Gi", "resize-timeout": 60}}'


@pytest.mark.parametrize(
    "beside", ['"x": NaN', '"\\ud800": 1', '"x": "\\ud800"', '"x": Infinity', '"x": [1, {}]']
)
def test_what_ray_reads_lists_its_groups_whatever_stands_beside_them(beside: str) -> None:
    text = f"{{{LISTED}, {beside}}}"
    assert parse_ippr(text)[1] == ""
    assert read_ippr(text) == {"g": Maxima(8, "8Gi")}


@pytest.mark.parametrize("key", ["x", "\\ud800"])
def test_a_key_of_a_group_that_ray_does_not_know_is_passed_over(key: str) -> None:
    text = f'{{"groups": {{"g": {{"max-cpu": 8, "{key}": NaN}}}}}}'
    assert read_ippr(text) == {"g": Maxima(8, None)}


@pytest.mark.parametrize("text", [
    "", " ", "{", "[]", "null", '{"groups": null}', '{"groups": []}', '{"groups": {"g": 1}}',
    '{"groups": {"g": {"max-cpu": true}}}', "[" * 100_000,
])  # fmt: skip
def test_what_ray_refuses_lists_nothing(text: str) -> None:
    assert read_ippr(text) == {}
