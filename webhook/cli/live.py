"""The Ray objects that live in a cluster, as the manifests of nobody's file."""

import argparse
from typing import Any, Final

import msgspec

from webhook.cli.connection import Cluster, look
from webhook.follow.errors import ApiError
from webhook.kube import names
from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import Manifest

_SECONDS: Final = 30.0


def objects(arguments: argparse.Namespace) -> list[Manifest | ManifestError] | None:
    """Return them, each under the name of its kind, its namespace and itself; None, after saying
    why, when the cluster cannot be looked at. A kind that is not served has none.
    """
    return look(arguments, _take)


async def _take(cluster: Cluster) -> list[Manifest | ManifestError]:
    found: list[Manifest | ManifestError] = []
    for kind in names.RAY_KINDS:
        within = f"/namespaces/{cluster.namespace}" if cluster.namespace else ""
        path = f"/apis/{names.RAY_GROUP}/v1{within}/{kind.lower()}s"
        try:
            listed: dict[str, Any] = msgspec.json.decode(await cluster.api.get(path, (), _SECONDS))
        except ApiError as error:
            if error.reason != "missing":
                raise
            continue
        for item in listed.get("items") or ():
            meta = item["metadata"]
            name = f"{kind} {meta.get('namespace')}/{meta.get('name')}"
            found.append(Manifest(name, {"apiVersion": "ray.io/v1", "kind": kind, **item}))
    return found
