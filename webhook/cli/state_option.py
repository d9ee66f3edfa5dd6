"""`--state`: read objects from files, such as those of `status -o state`, not from a cluster."""

import argparse
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from webhook.cache.cluster_cache import read_cluster
from webhook.cli.connection import Cluster, look
from webhook.cli.files import read_files
from webhook.cli.parsing import refuse
from webhook.dashboard.state_files import Stated, collected_in, is_of_state, objects_in
from webhook.diagnostics.object_cache import ObjectCache
from webhook.manifest.manifest_error import ManifestError
from webhook.manifest.reader import Manifest

_NOTHING: Final = (
    "no RayCluster or Pod in it, and nothing that `ray-webhook status -o state` writes"
)


class State(Struct, frozen=True):
    """The objects, when they were read in seconds since the epoch, and why others were not."""

    objects: ObjectCache
    now: float
    unread: dict[str, str]


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument(
        "--state",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="a file or folder with RayClusters and pods, in place of a cluster; "
        "`ray-webhook status -o state` writes one",
    )


def read_state(arguments: argparse.Namespace) -> State | None:
    """Return the state in the files of `--state`, else that of the cluster; None after an error
    message if the state cannot be read.
    """
    if not arguments.state:
        return look(arguments, _take)
    try:
        return state_in(arguments)
    except ManifestError as error:
        refuse(arguments.command, str(error))
        return None


def state_in(arguments: argparse.Namespace) -> State:
    """Return the state in files, of one namespace if given. Raises ManifestError."""
    manifests: list[Manifest] = []
    for path in arguments.state:
        found = [_certain(each) for each in read_files([path])]
        if not any(map(is_of_state, found)):
            raise ManifestError(str(path), 0, _NOTHING)
        manifests += found
    objects = objects_in(manifests, arguments.namespace or "", ignoring=arguments.ignoring)
    now, unread = collected_in(manifests)
    return State(objects, time.time() if now is None else now, Stated(objects).unread | unread)


async def _take(cluster: Cluster) -> State:
    objects, unread = await read_cluster(cluster.api, cluster.namespace, ignoring=cluster.ignoring)
    return State(objects, time.time(), unread)


def _certain(found: Manifest | ManifestError) -> Manifest:
    if isinstance(found, ManifestError):
        raise found
    return found
