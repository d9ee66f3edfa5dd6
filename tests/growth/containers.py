"""All containers that a process keeps: reachable from the modules of the program and from its
composition, with their bytes.
"""

import functools
import gc
import pkgutil
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import webhook

LRU: Final = type(functools.lru_cache(lambda: None))
_CONTAINERS: Final = (dict, list, set, deque, LRU)
_OUTSIDE: Final = (ModuleType, FrameType)
_LEAVES: Final = (str, bytes, int, float, bool, type(None))
_Reached = tuple[str, list[object]]
"""A path, and the values at its end."""


class Container(NamedTuple):
    """A container: the types from a root to it, its number of entries, and its bytes with those of
    its entries, up to the next containers.
    """

    path: str
    value: Any
    entries: int
    size: int


def modules() -> list[ModuleType]:
    listed = pkgutil.walk_packages(webhook.__path__, "webhook.")
    return [import_module(each.name) for each in listed if not each.name.endswith("__main__")]


def containers(*roots: object) -> dict[int, Container]:
    starts = [(each.__name__, [*vars(each).values()]) for each in modules()]
    return {
        id(value): Container(
            path, value, _entries(value), sys.getsizeof(value) + sum(map(_size, inner))
        )
        for path, value, inner in _reached([*starts, *_starts(roots)])
        if isinstance(value, _CONTAINERS)
    }


def instances(kind: type, *roots: object) -> Iterator[Any]:
    return (value for _, value, _ in _reached(_starts(roots)) if isinstance(value, kind))


def _starts(roots: Iterable[object]) -> list[_Reached]:
    return [(type(root).__name__, [root]) for root in roots]


def _reached(starts: list[_Reached]) -> Iterator[tuple[str, Any, list[object]]]:
    """Yield the path of each value that is reachable, the value, and what it refers to."""
    seen = {id(vars(each)) for each in sys.modules.values() if isinstance(each, ModuleType)}
    pending = deque(starts)
    while pending:
        path, values = pending.popleft()
        for value in values:
            if id(value) in seen or isinstance(value, (*_OUTSIDE, *_LEAVES)):
                continue
            seen.add(id(value))
            if isinstance(value, type) and not value.__module__.startswith("webhook"):
                continue
            here, inner = f"{path} > {_called(value)}", _referents(value)
            yield here, value, inner
            pending.append((here, inner))


def _called(value: object) -> str:
    if isinstance(value, FunctionType | LRU):
        return f"{getattr(value, '__qualname__', type(value).__name__)}()"
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _referents(value: object) -> list[object]:
    if isinstance(value, FunctionType):
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    if isinstance(value, dict):  # the garbage collector does not traverse keys that are texts
        return [*value.keys(), *value.values()]
    return [
        each for each in gc.get_referents(value) if each is not getattr(value, "__wrapped__", 0)
    ]


def _entries(value: Any) -> int:  # noqa: ANN401 - a container
    return value.cache_info().currsize if isinstance(value, LRU) else len(value)


def _size(value: object, depth: int = 4) -> int:
    if isinstance(value, (*_CONTAINERS, *_OUTSIDE, type, FunctionType)):
        return 0
    size = sys.getsizeof(value)
    if depth and not isinstance(value, _LEAVES):
        size += sum(_size(each, depth - 1) for each in gc.get_referents(value))
    return size


def grown(
    before: dict[int, Container], after: dict[int, Container]
) -> Iterable[tuple[Container, Container]]:
    for key, container in after.items():
        old = before.get(key)
        if old is not None and old.value is container.value and container.size > old.size:
            yield old, container
