"""Take the screenshots of docs/status.md#dashboard: `python -m tests.browser.pictures`."""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from tests.browser.install import chromium
from tests.browser.played import Cluster, dashboard
from tests.dashboard.stage import document_of
from tests.diagnostics.samples import samples
from tests.diagnostics.scenes import Scene, llama

FOLDER: Final = Path(__file__).parents[2] / "docs" / "dashboard"
WINDOWS: Final[dict[str, Any]] = {
    "page": {"viewport": {"width": 1000, "height": 720}},
    "dark": {"viewport": {"width": 1000, "height": 720}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}},
}
SCENES: Final = (
    ("team", "llama", samples()["host-missing"].scene()),
    ("fleet", "serving", Scene(llama(replicas=40))),
    ("search", "ranker", samples()["container-waits"].scene()),
)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    with Cluster().serving() as cluster, tempfile.TemporaryDirectory() as folder:
        for namespace, name, scene in SCENES:
            for resource, objects in document_of(scene, namespace, name).items():
                cluster.put(resource, *objects)
        with dashboard(cluster, Path(folder)) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for name, window in WINDOWS.items():
                page = browser.new_context(**window).new_page()
                page.goto(address)
                page.wait_for_selector("section:nth-of-type(3)")
                if name == "dark":
                    page.locator("a.host.missing").click()
                    page.wait_for_selector("#panel:not([hidden])")
                elif name == "phone":
                    page.locator("section", has_text="llama").scroll_into_view_if_needed()
                page.wait_for_timeout(500)
                page.screenshot(path=FOLDER / f"{name}.png")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
