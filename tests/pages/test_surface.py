"""What users have to learn stays small: raise a bound only with a feature that needs it."""

from typing import get_args

from tests import ROOT
from webhook.cli.main import COMMANDS
from webhook.config.configuration import Component, known
from webhook.groups.annotations import OPT_INS


def test_annotations_components_settings_and_commands_are_few() -> None:
    sizes = (len(OPT_INS), len(get_args(Component)), len(known()), len(COMMANDS))
    bounds = (14, 4, 34, 12)
    assert all(size <= bound for size, bound in zip(sizes, bounds, strict=True)), sizes


def test_pages_for_users_are_few_and_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert len(pages) <= 20
    words = sum(len(page.read_text().split()) for page in pages)
    assert words <= 25_000, "shorten a page, or move what few need to docs/contributing"
