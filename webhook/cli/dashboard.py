"""`ray-webhook dashboard`: the page for one person."""

import argparse
import asyncio
import sys

import uvloop

from webhook.api.failures import InputError
from webhook.app.dashboard import DashboardServer, build, build_stated
from webhook.app.runtime import supervise
from webhook.cache.cluster_cache import probe
from webhook.cli.connection import advising, place_of, state_in
from webhook.cli.parsing import add_connection, add_ignoring, add_state, number
from webhook.cli.process import settle
from webhook.kubeclient.client import Api
from webhook.kubeclient.locations import load_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook dashboard -A            by your own kubeconfig and rights\n"
        "  ray-webhook dashboard --state DIR  of objects in files: .cache/demo after `make demo`\n"
        "\n"
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
    add_connection(parser)
    add_ignoring(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve one person until Ctrl-C."""
    if arguments.state:
        state = state_in(arguments)
        page = build_stated(state.objects, state.now, state.unread, arguments.port)
    else:
        path, namespace = place_of(arguments)
        load = load_of(path, arguments.context)
        with advising():
            asyncio.run(_try(Api(load), namespace))
        page = build(load, namespace, arguments.port, ignoring=arguments.ignoring)
    try:
        port = page.server.bind()
    except OSError as error:
        where = f"port {arguments.port} of 127.0.0.1"
        message = f"cannot listen on {where}: {error.strerror}; choose another"
        raise InputError(message) from None
    return uvloop.run(_serve(page, port))


async def _try(api: Api, namespace: str) -> None:
    """Send a first request, so that errors are printed here and not in the browser."""
    async with api:
        await probe(api, namespace)


async def _serve(page: DashboardServer, port: int) -> int:
    settle()
    await page.live.examine_changed()
    sys.stderr.write(
        f"ray-webhook dashboard: http://127.0.0.1:{port}/enter?token={page.session.token}\n"
        "open it; Ctrl-C ends the dashboard\n"
    )
    sys.stderr.flush()
    try:
        await supervise(page.runnables, page.drain)
    except ExceptionGroup as group:
        raise InputError("; ".join(map(str, group.exceptions))) from None
    return 0
