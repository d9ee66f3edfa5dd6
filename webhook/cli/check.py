"""`ray-webhook check`: check an installation, or its preconditions, and print the fixes."""

import argparse
import base64
import binascii
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from rich.console import RenderableType

from webhook.api import names
from webhook.api.failures import InputError
from webhook.api.formats import json_text
from webhook.certs.context import CertificateError, read_validity
from webhook.check.installation_checks import Assumed, Result, after, before, of_files, where
from webhook.check.probes import Probes
from webhook.cli.connection import ClusterConnection, look_until, state_in
from webhook.cli.parsing import add_connection, add_ignoring, add_output, add_state, add_wait
from webhook.cli.terminal import Text, listing, mark, show, style
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.messages import format_count
from webhook.groups.group_config import read_cluster_config
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest, read_strictly
from webhook.manifest.views import as_cluster
from webhook.manifest.yaml_values import ManifestError

_NEEDS: Final = "what an installation needs"


class _Found(NamedTuple):
    sections: dict[str, list[Result]]
    """The results by title."""
    scope: str = ""
    """The namespaces in which RayClusters and pods were checked."""

    @property
    def wrong(self) -> int:
        """The number of failed checks."""
        every = (result for results in self.sections.values() for result in results)
        return sum(result.verdict == "error" for result in every)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook check --pre        before the installation\n"
        "  ray-webhook check --wait 2m    after it: until no check fails, at most two minutes\n"
        "  ray-webhook check -n team      of the pods and RayClusters of one namespace\n"
        "  ray-webhook check --state FILE of `status -o state`: webhooks and identities\n\n"
        "Nothing is stored: objects are sent in dry runs only, to the namespace of -n, else to\n"
        "that of the context.\n\n"
        "exit status: 0 no check failed, 1 a check failed, 2 the cluster cannot be reached"
    )
    parser.add_argument("--pre", action="store_true", help="only check what an installation needs")
    add_wait(parser, "no check fails")
    add_output(parser)
    add_connection(parser, all_namespaces=False, namespaces="all that you may read")
    add_ignoring(parser)
    add_state(parser)
    parser.add_argument(
        "--installation.namespace",
        dest="installation",
        default="",
        metavar="NAME",
        help="the webhook's setting of that name (default: the namespace of its Service): where "
        "its account needs the rights to Leases",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check once, or until all checks pass or the timeout is over."""
    if arguments.state and (arguments.pre or arguments.wait):
        raise InputError("--state reads files: leave out --pre and --wait")
    if arguments.state:
        check_report = _of_files(arguments)
    else:
        ask = partial(_of_cluster, arguments=arguments)
        check_report = look_until(arguments, ask, lambda found: not found.wrong)
    if arguments.output == "json":
        sys.stdout.write(json_text(_data(check_report)))
    else:
        _show(check_report)
    return int(bool(check_report.wrong))


def _of_files(arguments: argparse.Namespace) -> _Found:
    state = state_in(arguments)
    namespace = arguments.namespace or ""
    cluster_report = examine(state.objects, state.now, state.unread)
    results = of_files(state.objects.configurations.listed, cluster_report, namespace)
    scope = f"namespace {namespace} of the files" if namespace else "the files"
    return _Found({"the objects in the files": list(results)}, scope)


async def _of_cluster(cluster: ClusterConnection, arguments: argparse.Namespace) -> _Found:
    probes = Probes(
        cluster.api,
        cluster.namespace,
        partial(worker_of, ignoring=cluster.ignoring),
        arguments.installation,
        ignoring=cluster.ignoring,
        everywhere=not arguments.namespace,
    )
    if arguments.pre:
        return _Found({_NEEDS: list(before(await probes.needs()))})
    now = time.time()
    probed = await probes.all(now)
    results = after(probed, expiry, read_assumed_settings(probed.settings), now)
    sections = {_NEEDS: list(before(probed)), "the installation": list(results)}
    return _Found(sections, where(probed.scope))


def worker_of(cluster: dict[str, Any], *, ignoring: bool = True) -> dict[str, Any] | None:
    """Return the first worker of a live RayCluster as KubeRay would send it; None if the RayCluster
    has no worker, or is ignored.
    """
    document = {**cluster, "apiVersion": "ray.io/v1", "kind": names.RAYCLUSTER_KIND}
    try:
        view = as_cluster(Manifest("live", document))
        cluster_config = read_cluster_config(view, ignoring=ignoring)
        if cluster_config.deleting or cluster_config.ignored:
            return None
        pods = expand(document, view)
        next(pods)  # the head
        worker = next(pods, None)
    except (ManifestError, ValueError):
        return None
    if worker is not None:  # only users who can delete the RayCluster may block its deletion
        worker["metadata"]["ownerReferences"][0].pop("blockOwnerDeletion")
    return worker


def expiry(bundle: str) -> float | None:
    """Return the expiry of a caBundle's certificate, in seconds since the epoch, or None."""
    try:
        return read_validity(base64.b64decode(bundle, validate=True)).end.timestamp()
    except (CertificateError, binascii.Error, ValueError):
        return None


class _Settings(msgspec.Struct):
    validation: Assumed


def read_assumed_settings(texts: Iterable[str] | None) -> Assumed | None:
    """Return the settings in the first text that has some of them, else the defaults; None if the
    texts are unknown.
    """
    if texts is None:
        return None
    for yaml_text in texts:
        with suppress(ManifestError, ValueError, msgspec.ValidationError):
            (manifest,) = read_strictly("settings", yaml_text.encode())
            return msgspec.convert(manifest.document, _Settings).validation
    return Assumed()


def _data(found: _Found) -> dict[str, Any]:
    checks = [
        {"section": title, **msgspec.to_builtins(result), "page": result.page}
        for title, results in found.sections.items()
        for result in results
    ]
    return {"right": not found.wrong, "scope": found.scope, "checks": checks}


def _show(found: _Found) -> None:
    parts: list[RenderableType] = []
    for title, results in found.sections.items():
        rows: list[tuple[Text | str, Text]] = []
        for result in results:
            rows.append((mark(result.verdict), Text(result.text)))
            if result.remedy:
                remedy = f"{result.remedy}; more: {result.page}"
                rows.append(("", Text(remedy, style=style("info"))))
        parts += [Text(title, style="bold"), listing(rows), Text()]
    scope = f", in {found.scope}" if found.scope else ""
    level, last = ("fine", "no check failed")
    if found.wrong:
        level, last = ("error", f"{format_count(found.wrong, 'check')} failed")
    show(*parts, Text.assemble(mark(level), f" {last}{scope}"))
