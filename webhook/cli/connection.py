"""The input of commands: a cluster, by the user's kubeconfig and rights, or files of a state."""

import argparse
import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Struct

from webhook.api import names
from webhook.api.failures import InputError
from webhook.cache.cluster_cache import read_cluster
from webhook.cache.state_files import Stated, is_of_state, objects_in, read_state_metadata
from webhook.cli.files import certain
from webhook.cli.missing_pods import read_forecasts, set_forecasts
from webhook.kubeclient.client import Api
from webhook.kubeclient.discovery import KubernetesRelease
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.locations import load_of, locate, namespace_of
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError
from webhook.objects.object_cache import ObjectCache

T = TypeVar("T")

_SECONDS: Final = 30.0
"""Deadline of a list."""
_PERIOD: Final = 2.0
"""The period of --wait in seconds."""
_ADVICE: Final = {
    "refused": "is the API server up, and the address in the kubeconfig right?",
    "timeout": "is a firewall or a VPN between here and the API server?",
    "tls": "is the certificate authority in the kubeconfig that of this cluster?",
    "unauthorized": "log in again: the kubeconfig's credentials are not accepted",
    "forbidden": "ask for the permission, or choose a namespace with -n",
    "missing": "is KubeRay installed? `ray-webhook check --pre` looks",
}


class ClusterConnection(NamedTuple):
    """A cluster, a namespace or all if empty, and whether the `ignore` label is honoured."""

    api: Api
    namespace: str
    ignoring: bool


def with_cluster(
    arguments: argparse.Namespace, ask: Callable[[ClusterConnection], Awaitable[T]]
) -> T:
    """Return the result of `ask`. Raises InputError if the cluster cannot be reached."""
    logging.getLogger("webhook").addHandler(logging.NullHandler())  # errors are raised

    async def connect_and_ask() -> T:
        path, namespace = place_of(arguments)
        async with Api(load_of(path, arguments.context)) as api:
            return await ask(
                ClusterConnection(api, namespace, getattr(arguments, "ignoring", True))
            )

    with advising():
        return asyncio.run(connect_and_ask())


def look_until(
    arguments: argparse.Namespace,
    ask: Callable[[ClusterConnection], Awaitable[T]],
    over: Callable[[T], bool],
) -> T:
    """Return the result of `with_cluster` once it is `over`, or the last after `--wait`."""
    deadline = time.monotonic() + arguments.wait
    while True:
        result = with_cluster(arguments, ask)
        if over(result) or time.monotonic() >= deadline:
            return result
        time.sleep(_PERIOD)


def place_of(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the kubeconfig to use, and the namespace, empty for all. Raises ConfigurationError."""
    path = locate(arguments.kubeconfig)
    everywhere = getattr(arguments, "all_namespaces", False)
    current = namespace_of(path, arguments.context)
    return path, "" if everywhere else arguments.namespace or current


@contextmanager
def advising() -> Iterator[None]:
    """Raise InputError with the fix for a failure of the API server."""
    try:
        yield
    except ApiError as error:
        advice = _ADVICE.get(error.reason)
        raise InputError(f"{error}; {advice}" if advice else str(error)) from None


async def ray_objects(cluster: ClusterConnection) -> tuple[list[Manifest], tuple[int, int] | None]:
    """Return the Ray objects in the cluster, each under its kind, namespace and name, and the
    release of the API server. A kind that is not served has no objects.
    """
    manifests = []
    for kind in names.RAY_KINDS:
        within = f"/namespaces/{cluster.namespace}" if cluster.namespace else ""
        path = f"/apis/{names.RAY_GROUP}/v1{within}/{kind.lower()}s"
        listed = await cluster.api.find(path, dict[str, Any], _SECONDS) or {}
        for item in listed.get("items") or ():
            meta = item["metadata"]
            name = f"{kind} {meta.get('namespace')}/{meta.get('name')}"
            manifests.append(Manifest(name, {"apiVersion": "ray.io/v1", "kind": kind, **item}))
    return manifests, await KubernetesRelease(cluster.api).ask()


_NOTHING: Final = (
    "no RayCluster or Pod in it, and nothing that `ray-webhook status -o state` writes"
)


class State(Struct, frozen=True):
    """The objects, when they were read in seconds since the epoch, and why others were not."""

    objects: ObjectCache
    now: float
    unread: dict[str, str]


def read_state(arguments: argparse.Namespace) -> State:
    """Return the state in the files of `--state`, else that of the cluster. Raises InputError."""
    return state_in(arguments) if arguments.state else with_cluster(arguments, _take)


def state_in(arguments: argparse.Namespace) -> State:
    """Return the state in files, of one namespace if given. Raises ManifestError."""
    manifests: list[Manifest] = []
    for path in arguments.state:
        path_manifests = [*certain(path)]
        if not any(map(is_of_state, path_manifests)):
            raise ManifestError(str(path), 0, _NOTHING)
        manifests += path_manifests
    objects = objects_in(manifests, arguments.namespace or "", ignoring=arguments.ignoring)
    set_forecasts(objects, [manifest.document for manifest in manifests])
    now, unread = read_state_metadata(manifests)
    return State(objects, time.time() if now is None else now, Stated(objects, unread).unread)


async def _take(cluster: ClusterConnection) -> State:
    objects, unread = await read_cluster(cluster.api, cluster.namespace, ignoring=cluster.ignoring)
    await read_forecasts(cluster.api, cluster.namespace, objects)
    return State(objects, time.time(), unread)
