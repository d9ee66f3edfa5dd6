"""Pairs of node labels and Ray labels in an annotation."""

import pytest

from webhook.groups.annotations import NODE_LABELS


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a=b", ""),
        ("a=b,c=d", ""),
        ("a", "write <node label>=<Ray label>"),
        ("a=ray.io/node-id", "Ray sets ray.io/node-id itself"),
        ("a=b,c=b", "two node labels become b"),
    ],
)
def test_a_pair_that_ray_cannot_take_is_refused(text: str, fault: str) -> None:
    found = NODE_LABELS.problem(text)
    assert (fault in found) if fault else not found
