"""The connection of a command to a cluster: the user's own kubeconfig and rights, as kubectl has them."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from webhook.follow.client import Api
from webhook.follow.errors import ApiError, ConfigurationError
from webhook.follow.kubeconfig import load_of, locate, namespace_of

T = TypeVar("T")

UNREACHABLE: Final = 2
"""The exit status of a command that could not look."""

_ADVICE: Final = {
    "refused": "is the API server up, and the address in the kubeconfig right?",
    "timeout": "is a firewall or a VPN between here and the API server?",
    "tls": "is the certificate authority in the kubeconfig that of this cluster?",
    "unauthorized": "log in again: the kubeconfig's credentials are not accepted",
    "forbidden": "ask for the right, or look at one namespace with -n",
    "missing": "is KubeRay installed? `ray-webhook check --pre` looks",
}


class Cluster(NamedTuple):
    """Where a command looks. `namespace` is empty for all of them."""

    api: Api
    namespace: str


def add_arguments(parser: argparse.ArgumentParser, *, all_namespaces: bool = True) -> None:
    """Describe the arguments that say where to look."""
    where = parser.add_argument_group("where to look")
    where.add_argument("-n", "--namespace", default="", metavar="NAME", help="a namespace (default: the context's)")
    if all_namespaces:
        where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    where.add_argument("--context", default=None, metavar="NAME", help="a context of the kubeconfig")
    where.add_argument("--kubeconfig", default="", metavar="PATH", help="a kubeconfig (default: KUBECONFIG, else ~/.kube/config)")


def look(arguments: argparse.Namespace, ask: Callable[[Cluster], Awaitable[T]]) -> T | None:
    """Return what `ask` finds in the cluster; None, after saying why, when the cluster cannot be asked."""
    try:
        return asyncio.run(_look(arguments, ask))
    except (ApiError, ConfigurationError) as error:
        advice = _ADVICE.get(error.reason) if isinstance(error, ApiError) else None
        sys.stderr.write(f"ray-webhook {arguments.command}: {error}{f'; {advice}' if advice else ''}\n")
        return None


async def _look(arguments: argparse.Namespace, ask: Callable[[Cluster], Awaitable[T]]) -> T:
    path = locate(arguments.kubeconfig)
    everywhere = getattr(arguments, "all_namespaces", False)
    current = namespace_of(path, arguments.context)
    namespace = "" if everywhere else arguments.namespace or current
    api = Api(load_of(path, arguments.context))
    await api.open()
    try:
        return await ask(Cluster(api, namespace))
    finally:
        await api.close()
