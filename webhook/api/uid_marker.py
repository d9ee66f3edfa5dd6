"""Markers that the webhook writes on a pod. Each ends with the uid of its pod, which no pod
template can contain, so that copied markers are invalid.
"""


def mark(text: str, uid: str) -> str:
    """Return the marker of a text for the pod of a uid; a valid label value if the text has at most
    26 characters.
    """
    return f"{text}.{uid}"


def marked(text: str, uid: str) -> str:
    """Return the text of a marker for the pod of a uid, or an empty text if the marker is of
    another pod.
    """
    end = f".{uid}"
    return text.removesuffix(end) if uid and text.endswith(end) else ""
