"""The webhook configurations of an installation: their `caBundle`, and `failurePolicy: Fail` after
an admission through the API server succeeds.

See docs/contributing/decisions/0020-nothing-fails-closed-at-first.md.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from webhook.api import names
from webhook.api.objects import ObjectMeta
from webhook.kubeclient.client import DRY_RUN, Api, Operation, decoded
from webhook.kubeclient.errors import ApiError

POLL_SECONDS: Final = 10.0
"""Period of the checks of both configurations."""

_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
_FAIL: Final = "Fail"

_log: Final = logging.getLogger("webhook.kubeclient")


class _ClientConfig(Struct, rename="camel"):
    ca_bundle: str = ""


class Entry(Struct, rename="camel"):
    """A webhook of a configuration."""

    name: str = ""
    client_config: _ClientConfig = field(default_factory=_ClientConfig)
    failure_policy: str = ""


class Configuration(Struct):
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    metadata: ObjectMeta
    webhooks: list[Entry] | None = None

    def open_entries(self) -> list[int]:
        """Return the indices of the webhooks that have to fail closed and do not yet."""
        if (self.metadata.annotations or {}).get(names.ANNOTATION_FAILURE_POLICY) != _FAIL:
            return []
        return [
            index
            for index, entry in enumerate(self.webhooks or ())
            if entry.failure_policy != _FAIL and entry.name not in names.OPEN_WEBHOOKS
        ]


def paths(name: str) -> tuple[str, str]:
    """Return the paths of the mutating and the validating configuration of an installation."""
    return (
        f"{_GROUP}/mutatingwebhookconfigurations/{quote(name)}",
        f"{_GROUP}/validatingwebhookconfigurations/{quote(name)}",
    )


async def patch(api: Api, path: str, version: str, operations: Sequence[Operation]) -> bool:
    """Patch this version of an object, and return whether it still had that version."""
    try:
        await api.patch(path, operations, version)
    except ApiError as error:
        if error.reason == "conflict":
            return False
        raise
    return True


class FailurePolicy:
    """Sets `failurePolicy: Fail` on the webhooks of configurations whose annotation requests it.

    Webhooks are applied with `Ignore`. Before the first change, a dry run creates a Lease that the
    configuration has a webhook for: only an object with the annotation of that webhook proves that
    the API server reached it, with its `caBundle`.
    """

    def __init__(self, api: Api, namespace: str, name: str, seconds: float = POLL_SECONDS) -> None:
        self._api = api
        self._paths = paths(name)
        self._lease = f"{name}-probe"
        self._leases = _LEASES.format(namespace=quote(namespace))
        self._seconds = seconds
        self._problem = ""

    async def run(self) -> None:
        """Check both configurations until cancelled."""
        while True:
            await self._check()
            await asyncio.sleep(self._seconds)

    async def _check(self) -> None:
        """Check once; log each new problem once."""
        try:
            problem = await self._close()
        except ApiError as error:
            problem = f"the webhook configurations cannot be read or patched: {error}"
        if problem and problem != self._problem:
            _log.warning("failurePolicy stays Ignore: %s", problem)
        self._problem = problem

    async def _close(self) -> str:
        """Set the policy of every open webhook, and return what prevents it. Raises ApiError."""
        absent = Configuration(ObjectMeta())
        found = [await self._api.find(path, Configuration) or absent for path in self._paths]
        if not any(each.open_entries() for each in found):
            return ""
        bundle = next(
            (
                entry.client_config.ca_bundle
                for entry in found[0].webhooks or ()
                if entry.name == names.PROBE_WEBHOOK
            ),
            "",
        )
        if not bundle:
            return f"{names.PROBE_WEBHOOK} has no caBundle yet"
        if problem := await self._unreached():
            return problem
        waiting = []
        for path, each in zip(self._paths, found, strict=True):
            entries = each.webhooks or []
            ready = [
                index
                for index in each.open_entries()
                if entries[index].client_config.ca_bundle == bundle
            ]
            waiting += [entries[index].name for index in {*each.open_entries()} - {*ready}]
            operations = [
                {"op": "add", "path": f"/webhooks/{index}/failurePolicy", "value": _FAIL}
                for index in ready
            ]
            if operations and await patch(
                self._api, path, each.metadata.resource_version, operations
            ):
                closed = ", ".join(entries[index].name for index in ready)
                _log.info("failurePolicy of %s is Fail from now on", closed)
        return f"{', '.join(waiting)}: caBundle differs from the one in use" if waiting else ""

    async def _unreached(self) -> str:
        """Return why an admission through the API server does not reach the webhook."""
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._lease, "labels": {names.LABEL_PROBE: "true"}},
            "spec": {},
        }
        try:
            answer = await self._api.create(self._leases, body, query=DRY_RUN)
        except ApiError as error:
            return f"the dry run of a Lease failed: {error}"
        stored = decoded(answer, Configuration)
        if (stored.metadata.annotations or {}).get(names.ANNOTATION_ADMITTED) != "true":
            return "the API server does not reach the webhook: a dry run of a Lease is unchanged"
        return ""
