"""Every generated file in git is up to date."""

import pytest

from tests import ROOT
from tests.generate import GENERATED, stale


@pytest.mark.parametrize(
    "subject", [name for name in GENERATED if name not in {"installation", "scenarios"}]
)
def test_the_generated_files_are_up_to_date(subject: str) -> None:
    names = [str(path.relative_to(ROOT)) for path in stale(subject)]
    assert names == [], "run `make generate`"
