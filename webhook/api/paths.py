"""Paths into an object: JSON Pointers (RFC 6901) for patches, dotted paths for messages."""

from functools import lru_cache


@lru_cache(maxsize=256)
def escape(token: str) -> str:
    """Return a reference token of a JSON Pointer, with `~` and `/` escaped."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(*tokens: str | int) -> str:
    """Return the JSON Pointer of tokens: `pointer("spec", "containers", 0)` is
    `/spec/containers/0`.
    """
    return "".join(f"/{escape(token) if isinstance(token, str) else token}" for token in tokens)


def dotted(path: str) -> str:
    """Return a JSON Pointer in the notation of Kubernetes: `/spec/containers/0` is
    `spec.containers[0]`.
    """
    tokens = (token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:])
    return "".join(
        f"[{token}]" if token.isdigit() else f".{token}" for token in tokens
    ).removeprefix(".")
