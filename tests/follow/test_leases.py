"""How a page of claims is written into a Lease, and what becomes of one that cannot be used."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.follow.leases import FORMAT, Lease, LeasesDiffer, PageUnreadable, read_page, write_page
from webhook.groups.ledger import Account, Claim, Page
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.shards import ShardIndex, ShardKey
from webhook.kube import names

NUMBERS = st.integers(0, 1 << 50)
TEXTS = st.text(max_size=8)
SEATS = st.builds(Seat, st.integers(0, 1 << 20), st.integers(0, 4095), TEXTS)
INDICES = st.builds(ShardIndex, st.integers(0, 1 << 20), TEXTS)


def accounts(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Account]:
    """Return groups with claims of one kind."""
    return st.builds(
        Account, NUMBERS, st.dictionaries(TEXTS, st.builds(Claim, values, NUMBERS), max_size=3)
    )


PAGES = st.builds(
    lambda seats, indices, *others: Page({**seats, **indices}, *others),
    st.dictionaries(st.builds(GroupKey, TEXTS, TEXTS, TEXTS), accounts(SEATS), max_size=3),
    st.dictionaries(st.builds(ShardKey, TEXTS, TEXTS), accounts(INDICES), max_size=3),
    st.booleans(),
    NUMBERS,
    st.dictionaries(TEXTS, NUMBERS, max_size=3),
)


def a_lease(text: str | None) -> Lease:
    """Return a Lease with an annotation."""
    annotations = None if text is None else {names.ANNOTATION_CLAIMS: text}
    return msgspec.convert({"metadata": {"name": "claims-00", "annotations": annotations}}, Lease)


@given(PAGES)
def test_a_page_is_read_as_it_was_written(page: Page) -> None:
    assert read_page(a_lease(write_page(page, 8)), 8) == page


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "[]",
        "null",
        '{"format":1}',
        '{"format":1,"leases":8,"seats":[["ns"]]}',
        "\ud800",
    ],
)
def test_what_was_not_written_by_us_is_not_used(text: str | None) -> None:
    with pytest.raises(PageUnreadable, match="delete it, and it is made anew"):
        read_page(a_lease(text), 8)


def test_processes_of_different_versions_read_what_the_other_one_writes() -> None:
    content = json.loads(write_page(Page({}, settled=True), 8))
    before = {name: value for name, value in content.items() if name != "ages"}
    after = content | {"something new": {}}
    for each in (before, after):
        assert read_page(a_lease(json.dumps(each)), 8) == Page({}, settled=True)


def test_a_newer_format_is_left_to_the_version_that_wrote_it() -> None:
    content = json.loads(write_page(Page(), 8)) | {
        "format": FORMAT + 1,
        "seats": "of another shape",
    }
    with pytest.raises(
        PageUnreadable, match=f"format {FORMAT + 1}, and this version knows {FORMAT}"
    ):
        read_page(a_lease(json.dumps(content)), 8)


def test_a_lease_that_was_made_for_another_number_of_leases_is_told_apart() -> None:
    with pytest.raises(LeasesDiffer, match=r"one of 8, and claims.leases is 64"):
        read_page(a_lease(write_page(Page(), 8)), 64)
