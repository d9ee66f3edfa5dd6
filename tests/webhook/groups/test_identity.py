"""A pod has a complete identity, none, or is refused; and replicas and slices have names."""

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.api import names
from webhook.api.formats import is_dns_label, is_label_value
from webhook.api.review import INVALID, REQUIRED, Denied
from webhook.groups.identity import MAX_REPLICAS, HostIdentity
from webhook.groups.identity_labels import read_identity_labels
from webhook.groups.naming import headless_service, replica_name, slice_name

INDEX, NAME, HOST = names.IDENTITY_LABELS
WHOLE = {INDEX: "2", NAME: "g-xh3hf", HOST: "1"}
LAST = str(MAX_REPLICAS - 1)
PARTS = [part for size in (1, 2) for part in combinations(names.IDENTITY_LABELS, size)]
NO_NUMBERS = (
    *("", "x", "01", "+1", "-1", " 1", "1 ", "1.0", "1e0", "0x1", "\u0661", "\u00b2", "1\n"),
    *("None", "1_0", "99999999999999"),
)


@pytest.mark.parametrize(("labels", "hosts", "identity"), [
    (WHOLE, 4, HostIdentity(2, 1, "g-xh3hf")), ({names.LABEL_GROUP: "g"}, 1, None),
    ({names.LABEL_GROUP: "g"}, 4, None), ({INDEX: "7"}, 1, HostIdentity(7, 0, "")),
    ({INDEX: "7", NAME: "g-xh3hf", HOST: "0"}, 1, HostIdentity(7, 0, "g-xh3hf")),
    ({**WHOLE, INDEX: LAST, HOST: "3"}, 4, HostIdentity(int(LAST), 3, "g-xh3hf")),
])  # fmt: skip
def test_labels_are_trusted(
    labels: dict[str, str], hosts: int, identity: HostIdentity | None
) -> None:
    assert read_identity_labels(labels, hosts) == identity


def refused(labels: dict[str, str], hosts: int = 4) -> list[tuple[str, str]]:
    with pytest.raises(Denied) as caught:
        read_identity_labels(labels, hosts)
    return [
        (cause.reason, cause.field.removeprefix("metadata.labels[").removesuffix("]"))
        for cause in caught.value.causes
    ]


@pytest.mark.parametrize(
    ("part", "hosts"),
    [(part, 4) for part in PARTS] + [(part, 1) for part in PARTS if part != (INDEX,)],
)
def test_a_part_of_an_identity_is_refused_with_the_rest(part: tuple[str, ...], hosts: int) -> None:
    missing = [(REQUIRED, label) for label in names.IDENTITY_LABELS if label not in part]
    assert refused({label: WHOLE[label] for label in part}, hosts) == missing


@pytest.mark.parametrize(("label", "text"), [
    *((label, text) for label in (INDEX, HOST) for text in NO_NUMBERS),
    *((HOST, text) for text in ("4", "5", "4096", "4294967296")),
    *((INDEX, text) for text in (str(MAX_REPLICAS), "2000000000", "9999999999")),
    *((NAME, text) for text in ("", "-x", "x" * 64, "a b")),
])  # fmt: skip
def test_a_label_that_is_wrong_is_named(label: str, text: str) -> None:
    assert refused({**WHOLE, label: text}) == [(INVALID, label)]


def test_every_wrong_label_is_named_at_once() -> None:
    assert refused({INDEX: "x", NAME: "", HOST: "1"}, 1) == [
        (INVALID, INDEX), (INVALID, NAME), (INVALID, HOST)]  # fmt: skip


GROUP_NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,55}[a-z0-9])?", fullmatch=True)


def test_the_name_of_a_slice_keeps_its_case_and_the_longest_service_is_a_dns_label() -> None:
    assert slice_name("TPU-Group", 7) == "TPU-Group-7"
    assert is_dns_label(headless_service("c" * 53))


@given(GROUP_NAMES, st.uuids().map(str))
def test_a_replica_name_is_spelt_as_kuberay_spells_it(group: str, uid: str) -> None:
    name = replica_name(group, uid)
    assert re.fullmatch(re.escape(group) + "-[bcdfghjklmnpqrstvwxz2456789]{5}", name)
    assert is_label_value(name)


@given(st.uuids().map(str), st.integers(0, 3))
def test_one_request_gives_one_name_and_another_attempt_another(uid: str, attempt: int) -> None:
    assert replica_name("g", uid, attempt) == replica_name("g", uid, attempt)
    assert replica_name("g", uid, attempt) != replica_name("g", uid, attempt + 1)


def test_ten_thousand_requests_share_few_names() -> None:
    assert len({replica_name("g", f"request-{i}") for i in range(10_000)}) > 9_980
