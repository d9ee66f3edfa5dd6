"""Transforms of pods and nodes before they are stored: equal parts become one object.

The pods of a worker group differ in a few labels and variables. Objects are read-only, so that they
can share the rest.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from sys import intern
from typing import Final, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from webhook.api.objects import Affinity, Bare, EnvVar, OwnerReference, Strings
from webhook.diagnostics.live_objects import Condition, LiveContainer, LivePod

T = TypeVar("T")

_SHARED: Final = 1 << 13
"""Maximum number of distinct parts of one kind in a cache; pods with other parts share less memory.
"""

_encode: Final = msgspec.json.Encoder().encode


def kept(pod: LivePod) -> LivePod:
    """Return an equal pod that takes less memory."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    return replace(
        pod,
        metadata=replace(
            meta,
            labels=_strings(meta.labels),
            namespace=meta.namespace and intern(meta.namespace),
            generate_name=meta.generate_name and intern(meta.generate_name),
            creation_timestamp=meta.creation_timestamp and intern(meta.creation_timestamp),
            owner_references=_owners(meta.owner_references),
        ),
        spec=replace(
            spec,
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers),
            node_selector=_selector(spec.node_selector),
            affinity=_affinity(spec.affinity),
        ),
        status=replace(status, conditions=_conditions(status.conditions)),
    )


def kept_node(node: Bare) -> Bare:
    """Return a node without its annotations, which are not used."""
    meta = node.metadata
    return Bare(replace(meta, labels=_strings(meta.labels), annotations=None))


def _sharing(kind: type[T]) -> Callable[[T | None], T | None]:
    """Return a function that maps equal values to one object."""
    decode = msgspec.json.Decoder(kind).decode

    @lru_cache(maxsize=_SHARED)
    def shared(text: bytes) -> T:
        return decode(text)

    return lambda value: None if value is None else shared(_encode(value))


_owners: Final = _sharing(list[OwnerReference])
_selector: Final = _sharing(Strings)
_affinity: Final = _sharing(Affinity)
_container: Final = _sharing(LiveContainer)


@lru_cache(maxsize=_SHARED)
def _variable(value: EnvVar) -> EnvVar:
    return value


def _containers(values: Iterable[LiveContainer] | None) -> tuple[LiveContainer, ...] | None:
    if values is None:
        return None
    found = []
    for each in values:
        shell = _container(replace(each, env=None)) or each
        env = None if each.env is None else tuple(map(_variable, each.env))
        found.append(replace(shell, env=env))
    return tuple(found)


def _strings(values: Strings | None) -> Strings | None:
    return values and {intern(key): intern(value) for key, value in values.items()}


def _conditions(values: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    return values and tuple(
        Condition(*(text and intern(text) for text in astuple(each))) for each in values
    )
