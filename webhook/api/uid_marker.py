"""Marks that our processes write on a pod. Each ends with the uid of its pod, which no pod template
can know: what a template carries is no mark.
"""


def mark(text: str, uid: str) -> str:
    """Return a text as it is written on the pod of a uid; a label value for up to 26 characters."""
    return f"{text}.{uid}"


def marked(text: str, uid: str) -> str:
    """Return what was written on the pod of a uid, or nothing for a mark of anything else."""
    end = f".{uid}"
    return text.removesuffix(end) if uid and text.endswith(end) else ""
