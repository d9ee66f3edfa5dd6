"""Rules of Ray releases: `rayVersion` and images."""

from collections.abc import Iterator
from typing import Final

from webhook.api.release import (
    image_release,
    parse_release,
    same_release,
    shown,
)
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import warn


def ray_version_mismatch(cluster: Cluster) -> Iterator[Fault]:
    """A `rayVersion` that differs from the release of the head's image.

    KubeRay chooses commands, probes and the default autoscaler by `rayVersion`, but the image runs.
    Only the tags of Ray's own images are parsed.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    field = cluster.field / "rayVersion"
    declared = parse_release(field.text)
    actual = image_release(cluster.head.first.image)[0] if cluster.head.first else None
    if declared and actual and not same_release(declared, actual):
        yield Fault(
            field,
            f"rayVersion is {field.text[:24]}, but the head's image has Ray "
            f"{shown(actual)}: make them equal",
        )


def image_version_mismatch(cluster: Cluster) -> Iterator[Fault]:
    """An image of workers or of the autoscaler with another Ray or Python than the head's image.

    The head refuses such a worker with "Version mismatch", and an autoscaler of another release may
    not be compatible with the head. Only the tags of Ray's own images are parsed.

    https://github.com/ray-project/ray/issues/44063
    """
    if cluster.head.first is None:
        return
    ray, python = image_release(cluster.head.first.image)
    workers = [group.first.field / "image" for group in cluster.groups if group.first]
    own = [cluster.options / "image"] if cluster.autoscaling else []
    for field in (*own, *workers):
        own_ray, own_python = image_release(field.text)
        if ray and own_ray and ray != own_ray:
            yield Fault(
                field,
                f"image has Ray {shown(own_ray)}, but the head's has {shown(ray)}: use one release",
            )
        elif python and own_python and python != own_python:
            yield Fault(
                field, f"image has {own_python}, but the head's has {python}: use one Python"
            )


VERSIONS: Final = (
    warn(ray_version_mismatch),
    warn(image_version_mismatch),
)
