"""Print the answer of an AdmissionReview readably: `curl ... | python -m tests.demo.answer`."""

import base64
import json
import sys


def readable(review: str) -> str:
    """Return the answer in an AdmissionReview, a line for each operation of its patch."""
    answer = json.loads(review)["response"]
    if not answer["allowed"]:
        return f"denied: {answer['status']['message']}\n"
    operations = json.loads(base64.b64decode(answer.get("patch", "") or "W10="))
    lines = [f"allowed; operations of the patch: {len(operations)}"]
    lines += [f"{each['op']} {each['path']} {json.dumps(each.get('value'))}" for each in operations]
    return "\n".join([*lines, *(f"warning: {each}" for each in answer.get("warnings", ()))]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(readable(sys.stdin.read()))
