"""Write docs/annotations.md from the table of opt-ins: `python -m
tests.groups.annotations_page`.
"""

from pathlib import Path

from tests.pages import folded
from webhook.accelerators.profiles import (
    NONE,
    PROFILES,
    RENDEZVOUS,
    Profile,
)
from webhook.api import names
from webhook.groups.annotations import OPT_INS, RULE

PAGE = Path(__file__).parents[2] / "docs" / "annotations.md"

HEAD = f"""# Annotations

<!-- Written by `python -m tests.groups.annotations_page`; a test fails when it is out of date. -->

Set these on the RayCluster, or on the RayJob or RayService: KubeRay copies annotations to each
RayCluster that it creates. The rule [{RULE}](rules.md#{RULE}) denies an invalid value.

| annotation | effect | values | page |
|---|---|---|---|
"""

AFTER = f"""
The label `{names.LABEL_IGNORE}: "true"` on a RayCluster or a namespace makes the webhook leave it
alone; on RayClusters it has no effect where the setting `ignore.rayclusters` is off.

## Profiles

All hosts of a GPU replica of several hosts have {{rendezvous}}. A profile adds variables, and
`{NONE}` takes all of them away.

| profile | what for | variables |
|---|---|---|
"""


def page() -> str:
    rows = "".join(
        f"| `{row.annotation}` | {row.means} | {row.values} | [page]({row.page}) |\n"
        for row in OPT_INS
    )
    profiles = "".join(
        f"| `{each.name}` | {each.purpose} | {_variables(each)} |\n" for each in PROFILES
    )
    return folded(HEAD + rows + AFTER.format(rendezvous=_variables(RENDEZVOUS)) + profiles)


def _variables(profile: Profile) -> str:
    return ", ".join(f"`{setting.variable}`" for setting in profile.settings)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
