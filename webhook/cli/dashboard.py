"""`ray-webhook dashboard`: the dashboard for one person."""

import argparse
import asyncio
import sys

import uvloop

from webhook.api.failures import InputError
from webhook.app.dashboard import Page, build_own, build_stated
from webhook.app.runtime import supervise
from webhook.cache.cluster_cache import probe
from webhook.cli.connection import add_state, advising, place_of, state_in
from webhook.cli.parsing import add_connection, add_ignoring, number
from webhook.cli.process import settle
from webhook.dashboard.sessions import OwnAccess
from webhook.kubeclient.access import load_of
from webhook.kubeclient.client import Api

IN_CLUSTER = "--in-cluster"
"""The flag that runs the command as a process with settings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook dashboard -A            by your own kubeconfig and rights\n"
        "  ray-webhook dashboard --state DIR  of objects in files: .cache/demo after `make demo`\n"
        "  ray-webhook dashboard --in-cluster  as a Deployment runs it, with settings\n\n"
        "`ray-webhook dashboard --in-cluster --help` lists these.\n"
        "It listens on 127.0.0.1 and prints an address that lets one browser in.\n\n"
        "exit status: 0 ended by Ctrl-C, 2 the cluster cannot be reached"
    )
    parser.add_argument(
        "--port",
        type=number("a port", 0, 65535),
        default=8090,
        help="where it listens; 0 takes any free port",
    )
    add_state(parser)
    parser.add_argument(
        IN_CLUSTER, action="store_true", help="serve everybody with a token; the first flag, if so"
    )
    add_connection(parser)
    add_ignoring(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve one person until Ctrl-C."""
    if arguments.in_cluster:
        raise InputError(f"{IN_CLUSTER} has to be the first flag, before settings")
    if arguments.state:
        page, access = build_stated(state_in(arguments).objects, arguments.port)
    else:
        path, namespace = place_of(arguments)
        load = load_of(path, arguments.context)
        with advising():
            asyncio.run(_try(Api(load), namespace))
        page, access = build_own(load, namespace, arguments.port, ignoring=arguments.ignoring)
    try:
        port = page.server.bind()
    except OSError as error:
        where = f"port {arguments.port} of 127.0.0.1"
        text = f"cannot listen on {where}: {error.strerror}; choose another"
        raise InputError(text) from None
    return uvloop.run(_serve(page, access, port))


async def _try(api: Api, namespace: str) -> None:
    """Send a first request, so that errors are printed here and not in the browser."""
    async with api:
        await probe(api, namespace)


async def _serve(page: Page, access: OwnAccess, port: int) -> int:
    settle()
    await page.live.examine_changed()
    sys.stderr.write(
        f"ray-webhook dashboard: http://127.0.0.1:{port}/enter?token={access.token}\n"
        "open it; Ctrl-C ends the dashboard\n"
    )
    sys.stderr.flush()
    try:
        await supervise(page.runnables, page.drain)
    except ExceptionGroup as group:
        raise InputError("; ".join(map(str, group.exceptions))) from None
    return 0
