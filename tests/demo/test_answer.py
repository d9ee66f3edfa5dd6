"""The answer of the server to the review of `make run` is readable."""

import base64
import json

from tests.demo.answer import readable


def test_a_patch_is_shown_an_operation_a_line() -> None:
    patch = [{"op": "add", "path": "/spec/hostname", "value": "slices-0-0"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    response = {"allowed": True, "patch": encoded, "warnings": ["look"]}
    assert readable(json.dumps({"response": response})).splitlines() == [
        "allowed; operations of the patch: 1",
        'add /spec/hostname "slices-0-0"',
        "warning: look",
    ]


def test_a_denial_is_its_message() -> None:
    response = {"allowed": False, "status": {"message": "no"}}
    assert readable(json.dumps({"response": response})) == "denied: no\n"
