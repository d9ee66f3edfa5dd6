"""Chromium, and a dashboard of a fake cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.browser.install import chromium
from tests.harness.scenes import Scene
from tests.harness.served import Cluster, kubeconfig, serving_cluster
from tests.harness.server import serving_dashboard
from tests.webhook.diagnostics.samples import samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without the package nothing here can be read; `make browser` installs it, and runs these tests.
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]


LIVE_MS = 20_000
"""How long anything on a page may take on a busy machine."""


class Shown(NamedTuple):
    """A cluster, and the address by which a browser gets into its dashboard."""

    cluster: Cluster
    scene: Scene
    address: str


@contextmanager
def dashboard(cluster: Cluster, folder: Path) -> Iterator[str]:
    config = kubeconfig(folder, cluster.api.port)
    with serving_dashboard("-A", "--kubeconfig", str(config)) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import (  # noqa: PLC0415 - installed by `make browser`
        expect,
        sync_playwright,
    )

    expect.set_options(timeout=LIVE_MS)
    path = chromium()
    assert path, "chromium is not installed: make browser"
    with sync_playwright() as playwright:
        # As root, and in containers, chromium cannot have a sandbox.
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A dashboard on two namespaces: in one of them a host is missing."""
    scene = Scene()
    with serving_cluster() as cluster:
        cluster.store(samples()["host-missing"].scene())
        cluster.store(Scene().renamed("other", "qwen"))
        with dashboard(cluster, tmp_path_factory.mktemp("dashboard")) as address:
            yield Shown(cluster, scene, address)


@pytest.fixture
def page(browser: "Browser", shown: Shown) -> "Iterator[Page]":
    """A page in a desktop's window. Fails when the browser complained of anything."""
    yield from opened(browser, shown.address)


def opened(
    browser: "Browser",
    address: str,
    **options: Any,  # noqa: ANN401 - as chromium takes them
) -> "Iterator[Page]":
    context = browser.new_context(**options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#link.live")
    yield page
    context.close()
    assert complaints == []
