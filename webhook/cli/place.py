"""The arguments that say which cluster a command looks at, and where in it."""

import argparse

from webhook.kube import names


def add_arguments(
    parser: argparse.ArgumentParser,
    *,
    all_namespaces: bool = True,
    namespaces: str = "the context's",
) -> None:
    """Describe the arguments that say where to look: in `namespaces` unless told otherwise."""
    where = parser.add_argument_group("where to look")
    where.add_argument(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        help=f"a namespace (default: {namespaces})",
    )
    if all_namespaces:
        where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    where.add_argument(
        "--context", default=None, metavar="NAME", help="a context of the kubeconfig"
    )
    where.add_argument(
        "--kubeconfig",
        default="",
        metavar="PATH",
        help="a kubeconfig (default: KUBECONFIG, else ~/.kube/config)",
    )


def add_ignoring(parser: argparse.ArgumentParser) -> None:
    """Describe the argument for the one setting of the webhook that changes what is shown."""
    parser.add_argument(
        "--ignore.rayclusters",
        dest="ignoring",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the webhook's setting of that name (default: on): whether a RayCluster's label "
        f"{names.LABEL_IGNORE} leaves it alone",
    )
