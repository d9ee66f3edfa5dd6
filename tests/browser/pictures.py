"""Take the screenshots of docs/status.md#dashboard: `python -m tests.browser.pictures`.

TEXTS contains the text of each picture, and the digest of its file.
"""

import json
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests import ROOT
from tests.browser.install import chromium
from tests.harness.scenes import NOW, Scene, llama
from tests.harness.server import serving_dashboard
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.api.times import text_of
from webhook.cache.state_files import STATE_KIND

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER: Final = ROOT / "docs" / "dashboard"
TEXTS: Final = Path(__file__).with_name("pictures.json")
WINDOWS: Final[dict[str, Any]] = {
    "page": {"viewport": {"width": 1120, "height": 720}},
    "dark": {"viewport": {"width": 1280, "height": 720}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}},
}
SCENES: Final = (
    samples()["host-missing"].scene(),
    Scene(llama(replicas=40)).renamed("fleet", "serving"),
    samples()["container-not-running"].scene().renamed("search", "ranker"),
)
KINDS: Final = {
    "rayclusters": (f"{names.RAY_GROUP}/v1", names.RAYCLUSTER_KIND),
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "services": ("v1", "Service"),
    "nodes": ("v1", "Node"),
}


def write_state(file: Path) -> None:
    """Write the scenes as `ray-webhook status -o state` writes a cluster, so that ages stay."""
    metadata = {"name": "state"}
    items: list[Any] = [
        {"kind": STATE_KIND, "metadata": metadata, "now": text_of(NOW), "read": ["events"]}
    ]
    for scene in SCENES:
        for resource, (version, kind) in KINDS.items():
            objects = scene.resources[resource]
            items += [{"apiVersion": version, "kind": kind, **found} for found in objects]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def open_page(browser: "Browser", address: str, name: str) -> "Page":
    page = browser.new_context(**WINDOWS[name]).new_page()
    page.goto(address)
    page.wait_for_selector("section:nth-of-type(3)")
    page.wait_for_selector("#link.live")
    if name == "dark":
        page.locator("a.host.missing").click()
        page.wait_for_selector("#panel:not([hidden])")
    elif name == "phone":
        page.locator("section", has_text="llama").scroll_into_view_if_needed()
    return page


def text_in(page: "Page") -> list[str]:
    lines = page.locator("body").inner_text().splitlines()
    return [line.strip() for line in lines if line.strip()]


def digest_of(name: str) -> str:
    return sha256((FOLDER / f"{name}.png").read_bytes()).hexdigest()


def main() -> int:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - installed by `make browser`

    texts = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        state = Path(folder) / "state.json"
        write_state(state)
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        with serving_dashboard("--state", str(state)) as address:
            for name in WINDOWS:
                page = open_page(browser, address, name)
                page.wait_for_timeout(500)  # the end of animations
                page.screenshot(path=FOLDER / f"{name}.png")
                texts[name] = {"sha256": digest_of(name), "text": text_in(page)}
    TEXTS.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
