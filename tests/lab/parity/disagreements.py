"""Disagreements of rules and KubeRay, with the side that is right. At most 30 entries."""

import re

from msgspec import Struct


class Disagreement(Struct, frozen=True):
    """A kind of disagreement.

    `ours` is the rule that denies what KubeRay takes, or nothing where KubeRay refuses what no rule
    denies; `said` is part of what KubeRay says then; `at` is the end of the field's path.
    """

    right: str
    why: str
    ours: str = ""
    said: str = ""
    at: str = ""

    def explains(self, rule: str, text: str, path: str) -> bool:
        return (
            self.ours == rule
            and bool(re.search(self.said, text))
            and bool(re.search(self.at, path))
        )


DISAGREEMENTS = (
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayService or RayJob, and then refuses the RayCluster that it makes",
        ours="upgrade-strategy-not-own",
        at=r"upgradeStrategy\.type$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayCronJob, and then refuses each RayJob that it makes",
        ours="name-not-dns-label",
        at=r"^RayCronJob metadata\.name$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayCronJob, and then refuses each RayJob that it makes",
        ours="name-too-long",
        at=r"^RayCronJob metadata\.name$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay decodes 1e100, but not 1e-999999999; nothing has that much or that little",
        ours="value-not-decodable",
        at=r"\b(limits|requests|overhead)\W.+$|\.(divisor|sizeLimit|size)$",
    ),
)
