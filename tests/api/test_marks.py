"""Marks apply only to the pod that has them."""

import pytest

from webhook.api.formats import is_label_value, mark, marked
from webhook.controller.repair.plan import INCOMPLETE, LOST, RESTARTED

UID = "3f0b2c1e-5a7d-4a57-9c0e-0d3b6e8a1f42"


@pytest.mark.parametrize("reason", [LOST, RESTARTED, INCOMPLETE])
def test_a_mark_is_read_on_its_pod_alone_and_is_a_label_value(reason: str) -> None:
    text = mark(reason, UID)
    assert is_label_value(text)
    assert marked(text, UID) == reason
    for other in ("", "another", UID[1:]):
        assert marked(text, other) == ""


@pytest.mark.parametrize("text", ["", LOST, UID, f"{LOST}{UID}"])
def test_what_does_not_end_with_the_uid_is_no_mark(text: str) -> None:
    assert marked(text, UID) == marked(text, "") == ""
