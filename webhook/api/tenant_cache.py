"""A cache of values that are derived from the objects of users."""

from collections.abc import Hashable
from sys import getsizeof
from typing import Final, Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SHARE: Final = 4
_ENTRY_BYTES: Final = 256
"""Bytes of an entry in addition to its key and value."""


class _Namespace(Struct, Generic[K, V]):
    """The entries of a namespace, each with its bytes, and their sum; the oldest is first."""

    entries: dict[K, tuple[V, int]]
    size: int = 0


class TenantCache(Generic[K, V]):
    """Values by namespace and key, of at most `bytes_max` bytes in total, and a quarter of it per
    namespace.

    If a namespace exceeds its share, its oldest entries are dropped; if all together exceed the
    maximum, the oldest entries of the largest namespace.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.namespace_bytes_max = bytes_max // _SHARE
        self.size = 0
        self._namespaces: dict[str, _Namespace[K, V]] = {}

    def __len__(self) -> int:
        return sum(len(namespace.entries) for namespace in self._namespaces.values())

    def get(self, namespace: str, key: K) -> V | None:
        """Return the value of a key, or None."""
        tenant = self._namespaces.get(namespace)
        entry = tenant.entries.get(key) if tenant else None
        return entry[0] if entry else None

    def put(self, namespace: str, key: K, value: V, size: int) -> None:
        """Set the value of a key; `size` is the bytes of both."""
        self.remove(namespace, key)
        size += _ENTRY_BYTES
        if size > self.namespace_bytes_max:
            return
        tenant = self._namespaces.get(namespace)
        if tenant is None:
            tenant = self._namespaces[namespace] = _Namespace({}, getsizeof(namespace))
            self.size += tenant.size
        tenant.entries[key] = value, size
        tenant.size += size
        self.size += size
        while tenant.size > self.namespace_bytes_max and len(tenant.entries) > 1:
            self._drop_oldest(namespace)
        while self.size > self.bytes_max:
            self._drop_oldest(max(self._namespaces, key=lambda each: self._namespaces[each].size))

    def remove(self, namespace: str, key: K) -> None:
        """Remove a key, if it exists."""
        tenant = self._namespaces.get(namespace)
        entry = tenant.entries.pop(key, None) if tenant else None
        if tenant is None or entry is None:
            return
        tenant.size -= entry[1]
        self.size -= entry[1]
        if not tenant.entries:
            self.size -= tenant.size
            del self._namespaces[namespace]

    def _drop_oldest(self, namespace: str) -> None:
        self.remove(namespace, next(iter(self._namespaces[namespace].entries)))
