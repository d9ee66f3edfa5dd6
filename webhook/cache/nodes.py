"""Nodes: the labels of each that may be copied to pods."""

import logging
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from webhook.api.objects import Bare, Strings
from webhook.cache.informer import ListWatch
from webhook.cache.store import Store
from webhook.kubeclient.client import METADATA, Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import Codec, Resource

_SECONDS: Final = 1.0
"""Deadline of a live read: the API server's timeout for the review of a binding is 2 s."""

_log: Final = logging.getLogger("webhook.cache")


_CODEC: Final = Codec(Bare, limit=384 * 1024)
"""Annotations of an object have up to 256 KiB."""


class _Kept(Struct, frozen=True, gc=False):
    name: str
    labels: Strings


class NodeLabels:
    """Watches the metadata of all Nodes, and stores the labels with these keys."""

    def __init__(self, api: Api, keys: Collection[str]) -> None:
        self._api = api
        self._keys = tuple(keys)
        self._nodes: dict[str, _Kept] = {}
        self._uids: dict[str, str] = {}
        """Uids by name."""
        resource = Resource("nodes", "", "/api/v1/nodes", _CODEC, metadata_only=True)
        store = Store(self, self._keep_labels, lambda node: node.name)
        self.watch = ListWatch(api, resource, store)

    async def run(self) -> None:
        await self.watch.run()

    async def labels(self, name: str) -> Strings:
        """Return the stored labels of a Node. A Node that the watch has not delivered yet is read;
        if it cannot be read, it has none.
        """
        node = self._nodes.get(self._uids.get(name, ""))
        if node is not None:
            return node.labels
        try:
            path = f"/api/v1/nodes/{quote(name)}"
            return self._keep_labels(await self._api.read(path, Bare, _SECONDS, METADATA)).labels
        except ApiError as error:
            # Not a denial, with which the pod would get no node.
            _log.warning("labels of Node %s are not passed on: %s", name, error)
            return {}

    def get(self, uid: str) -> _Kept | None:
        return self._nodes.get(uid)

    def put(self, uid: str, value: _Kept) -> None:
        self._nodes[uid] = value
        self._uids[value.name] = uid

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        # A Node that was recreated has its name already.
        if node is not None and self._uids.get(node.name) == uid:
            del self._uids[node.name]

    def items(self) -> Iterable[tuple[str, _Kept]]:
        return self._nodes.items()

    def _keep_labels(self, node: Bare, _old: _Kept | None = None) -> _Kept:
        labels = node.metadata.labels or {}
        selected_labels = {key: labels[key] for key in self._keys if key in labels}
        return _Kept(node.metadata.name or "", selected_labels)
