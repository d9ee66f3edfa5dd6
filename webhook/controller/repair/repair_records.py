"""The ConfigMap with the repair records, in the controller's namespace.

See docs/contributing/decisions/0034-repair-keeps-its-own-record.md.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import DecodeError, Struct, field, json

from webhook.api.formats import pointer
from webhook.api.objects import ObjectMeta
from webhook.controller.repair.plan import EMPTY, Record
from webhook.kubeclient.client import Api, Operation, decode_response

_log: Final = logging.getLogger("webhook.controller")

Records = Mapping[str, Record]
"""By worker group."""


class _ConfigMap(Struct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class RepairRecords:
    """One ConfigMap, with a key for the uid of each RayCluster and the records of its worker
    groups.

    The ConfigMap is read once, and again after each write. A write of another process since the
    read is a conflict: a previous leader cannot act on a record that the new leader has changed.
    """

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._name = f"{namespace}/{name}"
        self._metadata = {"namespace": namespace, "name": name}
        self._collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._known: _ConfigMap | None = None

    def discard(self) -> None:
        """Read the ConfigMap again at the next use."""
        self._known = None

    async def of(self, uid: str) -> Records:
        json_text = ((await self._read()).data or {}).get(uid, "{}")
        try:
            return json.decode(json_text, type=dict[str, Record])
        except DecodeError as error:
            warning = (
                "repair: key %s of ConfigMap %s is not a record of this version (%s): it is "
                "ignored, and replaced when the replicas of this RayCluster run"
            )
            _log.warning(warning, uid, self._name, error)
            return {}

    async def write(self, uid: str, records: Records) -> None:
        """Write the records of a RayCluster. A change since the read is a conflict."""
        nonempty_records = {group: record for group, record in records.items() if record != EMPTY}
        value = json.encode(nonempty_records, order="deterministic").decode()
        await self._change({"op": "add", "path": pointer("data", uid), "value": value})

    async def prune(self, uids: Collection[str]) -> None:
        """Remove the records of all other RayClusters. Raises ApiError."""
        gone = [uid for uid in (await self._read()).data or {} if uid not in uids]
        if gone:
            await self._change(*({"op": "remove", "path": pointer("data", uid)} for uid in gone))

    async def _change(self, *changes: Operation) -> None:
        config_map = await self._read()
        # A patch whose parent is missing does not apply.
        if config_map.data is None:
            changes = ({"op": "add", "path": "/data", "value": {}}, *changes)
        # Before the write: if its outcome is unknown, the next use reads what is stored.
        self.discard()
        await self._api.patch(self._path, changes, config_map.metadata.resource_version)

    async def _read(self) -> _ConfigMap:
        if self._known is None:
            self._known = await self._api.find(self._path, _ConfigMap)
        if self._known is None:
            new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata}
            self._known = decode_response(await self._api.create(self._collection, new), _ConfigMap)
        return self._known
