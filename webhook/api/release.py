"""Versions of Ray: from `rayVersion` and from image tags."""

import re
from typing import Final

Release = tuple[int, ...]

# Kubernetes parses versions like this: at least two numbers, then any suffix.
# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/version/version.go
# (`ParseGeneric`)
_GENERIC: Final = re.compile(
    r"\s*v?((?:0|[1-9][0-9]{0,19})(?:\.(?:0|[1-9][0-9]{0,19})(?![0-9]))++)", re.ASCII
)
_LARGEST: Final = 2**64 - 1
# Only tags of Ray's own images contain a Ray version.
# https://docs.ray.io/en/latest/ray-overview/installation.html
_IMAGE: Final = re.compile(
    r"(?:.*/)?ray(?:-ml|-llm)?:(2\.[0-9]{1,4}\.[0-9]{1,4})(?:\.[0-9a-f]{6})?(?:-(py[0-9]{2,3}))?(?:-.*)?",
    re.ASCII,
)


def parse_release(text: str) -> Release | None:
    """Return the numbers of a version such as `2.46.0`, or None if KubeRay could not parse it."""
    match = _GENERIC.match(text)
    numbers = tuple(int(number) for number in match[1].split(".")) if match else ()
    return numbers if numbers and max(numbers) <= _LARGEST else None


def image_release(image: str) -> tuple[Release | None, str]:
    """Return the Ray release and the Python version (`py310`) in the tag of an image, if any."""
    match = _IMAGE.fullmatch(image)
    return (parse_release(match[1]), match[2] or "") if match else (None, "")


def same_release(one: Release, other: Release) -> bool:
    """Return whether two versions agree in all components that both have."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def format_release(release: Release) -> str:
    """Return a version in dotted notation."""
    return ".".join(map(str, release))
