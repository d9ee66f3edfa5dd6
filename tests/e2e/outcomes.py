"""Results of the tests on one pair, as a file: a pair with a file is not run again."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self
from xml.etree import ElementTree as ET

from tests.e2e import build
from tests.e2e.versions import Pair


@dataclass
class Outcome:
    """Of one story: how many of its cases passed, failed and did not run, with the texts of those
    that did not pass.
    """

    passed: int = 0
    failed: int = 0
    not_run: int = 0
    reasons: list[str] = field(default_factory=list)

    def count(self, case: ET.Element) -> None:
        broken = [*case.findall("failure"), *case.findall("error")]
        skipped = case.findall("skipped")
        self.failed += bool(broken)
        self.not_run += bool(skipped and not broken)
        self.passed += not broken and not skipped
        for each in broken or skipped:
            reason = each.get("message", "").strip().split("\n")[0]
            if reason not in self.reasons:
                self.reasons.append(reason)


@dataclass(frozen=True)
class Outcomes:
    """Of one pair: `state` names the code that ran, `day` when it did; `problem` says why nothing
    did.
    """

    kuberay: str
    kubernetes: str
    state: str = ""
    day: str = ""
    seconds: int = 0
    problem: str = ""
    stories: dict[str, Outcome] = field(default_factory=dict)

    @classmethod
    def load(cls, pair: Pair) -> Self | None:
        path = _path(pair)
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        found["stories"] = {name: Outcome(**each) for name, each in found["stories"].items()}
        return cls(**found)

    def save(self) -> None:
        path = _path(Pair(self.kuberay, self.kubernetes))
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self), indent=1))
        unfinished.rename(path)

    def total(self, what: str) -> int:
        return sum(getattr(each, what) for each in self.stories.values())


def read(report: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for case in _cases(report):
        name = f"{case.get('classname', '')}.{case.get('name', '').partition('[')[0]}"
        found.setdefault(name, Outcome()).count(case)
    return found


def _cases(report: str) -> Iterable[ET.Element]:
    return ET.fromstring(report).iter("testcase")  # noqa: S314 - pytest, run by us, wrote it


def _path(pair: Pair) -> Path:
    return (
        build.cache_directory()
        / "matrix"
        / f"kuberay-{pair.kuberay}-kubernetes-{pair.kubernetes}.json"
    )
