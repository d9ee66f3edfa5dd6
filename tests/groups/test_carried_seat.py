"""A pod has a complete identity, none, or is refused with the label that is wrong."""

from itertools import combinations

import pytest

from webhook.api import names
from webhook.api.review import INVALID, REQUIRED, Denied
from webhook.groups.identity import MAX_REPLICAS, HostIdentity
from webhook.groups.identity_labels import carried_seat

INDEX, NAME, HOST = names.SEAT_LABELS
WHOLE = {INDEX: "2", NAME: "g-xh3hf", HOST: "1"}


def refused(labels: dict[str, str], hosts: int) -> list[tuple[str, str]]:
    """Return reason and label of each cause for which a seat is refused."""
    with pytest.raises(Denied) as caught:
        carried_seat(labels, hosts)
    return [
        (cause.reason, cause.field.removeprefix("metadata.labels[").removesuffix("]"))
        for cause in caught.value.causes
    ]


def test_a_whole_seat_is_trusted() -> None:
    assert carried_seat(WHOLE, 4) == HostIdentity(2, 1, "g-xh3hf")


@pytest.mark.parametrize("hosts", [1, 4])
def test_no_seat_label_means_no_seat(hosts: int) -> None:
    assert carried_seat({names.LABEL_GROUP: "g"}, hosts) is None


def test_the_index_alone_is_a_whole_seat_of_a_single_host() -> None:
    assert carried_seat({INDEX: "7"}, 1) == HostIdentity(7, 0, "")


def test_a_single_host_may_carry_all_three() -> None:
    assert carried_seat({INDEX: "7", NAME: "g-xh3hf", HOST: "0"}, 1) == HostIdentity(
        7, 0, "g-xh3hf"
    )


def test_a_single_host_has_no_second_host() -> None:
    assert refused({INDEX: "7", NAME: "g-xh3hf", HOST: "1"}, 1) == [(INVALID, HOST)]


PARTS = [part for size in (1, 2) for part in combinations(names.SEAT_LABELS, size)]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_seat_is_refused_with_every_label_that_is_missing(
    part: tuple[str, ...],
) -> None:
    missing = [(REQUIRED, label) for label in names.SEAT_LABELS if label not in part]
    assert refused({label: WHOLE[label] for label in part}, 4) == missing


@pytest.mark.parametrize("part", [part for part in PARTS if part != (INDEX,)])
def test_a_part_of_a_seat_is_refused_for_a_single_host_too(part: tuple[str, ...]) -> None:
    missing = [(REQUIRED, label) for label in names.SEAT_LABELS if label not in part]
    assert refused({label: WHOLE[label] for label in part}, 1) == missing


@pytest.mark.parametrize("label", [INDEX, HOST])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "01",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1.0",
        "1e0",
        "0x1",
        "\u0661",
        "\u00b2",
        "1\n",
        "None",
        "1_0",
        "99999999999999",
    ],
)
def test_a_number_is_plain_decimal(label: str, text: str) -> None:
    assert refused({**WHOLE, label: text}, 4) == [(INVALID, label)]


@pytest.mark.parametrize("text", ["4", "5", "4096", "4294967296"])
def test_a_host_is_below_the_number_of_hosts(text: str) -> None:
    assert refused({**WHOLE, HOST: text}, 4) == [(INVALID, HOST)]


def test_the_last_host_and_the_last_replica_are_in_range() -> None:
    assert carried_seat({**WHOLE, HOST: "3", INDEX: str(MAX_REPLICAS - 1)}, 4) == HostIdentity(
        MAX_REPLICAS - 1, 3, "g-xh3hf"
    )


@pytest.mark.parametrize("text", [str(MAX_REPLICAS), "2000000000", "9999999999"])
def test_a_replica_index_that_could_never_be_handed_out_is_refused(text: str) -> None:
    assert refused({**WHOLE, INDEX: text}, 4) == [(INVALID, INDEX)]


@pytest.mark.parametrize("text", ["", "-x", "x" * 64, "a b"])
def test_a_replica_name_is_a_label_value_that_is_not_empty(text: str) -> None:
    assert refused({**WHOLE, NAME: text}, 4) == [(INVALID, NAME)]


def test_every_wrong_label_is_named_at_once() -> None:
    assert refused({INDEX: "x", NAME: "", HOST: "4"}, 4) == [
        (INVALID, INDEX),
        (INVALID, NAME),
        (INVALID, HOST),
    ]
