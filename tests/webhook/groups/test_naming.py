"""Names derived from an identity."""

import re

from hypothesis import given
from hypothesis import strategies as st

from webhook.api.formats import is_dns_label, is_label_value
from webhook.groups.naming import headless_service, replica_name, slice_name

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
