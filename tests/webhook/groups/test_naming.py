"""Names derived from an identity."""

import re

from hypothesis import given
from hypothesis import strategies as st

from webhook.api.formats import is_dns_label, is_label_value
from webhook.groups.naming import (
    REPLICA_NAME_GROUP_MAX,
    headless_service,
    host_name,
    replica_name,
    slice_name,
)

GROUP_NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,55}[a-z0-9])?", fullmatch=True)


def test_names_are_made_of_group_replica_and_host() -> None:
    assert host_name("tpu-group", 3, 12) == "tpu-group-3-12"
    assert host_name("TPU-Group", 0, 1) == "tpu-group-0-1"
    assert slice_name("TPU-Group", 7) == "TPU-Group-7"
    assert headless_service("c" * 53) == "c" * 53 + "-headless"
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


def test_the_longest_group_name_leaves_room_for_the_suffix() -> None:
    assert len(replica_name("g" * REPLICA_NAME_GROUP_MAX, "uid")) == 63
    assert REPLICA_NAME_GROUP_MAX == 57


def test_ten_thousand_requests_share_few_names() -> None:
    assert len({replica_name("g", f"request-{i}") for i in range(10_000)}) > 9_980
