"""What was handed out and not seen yet: until when it is held."""

from math import inf

from webhook.groups.claims import ASSUMED_SECONDS, Claimed


def holding(*values: int, now: float = 0.0, seconds: float = ASSUMED_SECONDS) -> Claimed[str, int]:
    """Return what was handed out at one time under one key."""
    claimed: Claimed[str, int] = Claimed(seconds)
    for value in values:
        claimed.reserve("key", value, now)
    return claimed


def test_a_value_is_held_until_its_time_is_up() -> None:
    claimed = holding(3)
    assert not claimed.expire(ASSUMED_SECONDS - 0.1)
    assert claimed.of("key") == [3]
    assert claimed.expire(ASSUMED_SECONDS) == [("key", 3)]
    assert (len(claimed), claimed.of("key")) == (0, ())


def test_a_value_is_held_once_and_its_time_begins_once() -> None:
    claimed = holding(3)
    assert not claimed.reserve("key", 3, 30.0)
    assert len(claimed) == 1
    assert claimed.expire(ASSUMED_SECONDS) == [("key", 3)]


def test_a_value_that_was_let_go_and_handed_out_again_has_its_whole_time() -> None:
    claimed = holding(3)
    assert claimed.release("key", 3)
    assert not claimed.release("key", 3)
    assert claimed.reserve("key", 3, 10.0)
    assert not claimed.expire(ASSUMED_SECONDS)
    assert claimed.expire(ASSUMED_SECONDS + 10.0) == [("key", 3)]


def test_keys_do_not_share_values() -> None:
    claimed = holding(3)
    assert claimed.reserve("other", 3, 0.0)
    assert claimed.release("key", 3)
    assert (claimed.of("key"), claimed.of("other")) == ((), [3])


def test_no_time_passes_while_one_of_those_who_tell_of_objects_is_silent() -> None:
    claimed = holding(3)
    claimed.hear("blue", -inf)
    claimed.hear("green", 1e9)
    assert not claimed.expire(1e9)
    claimed.hear("blue", ASSUMED_SECONDS)
    assert claimed.expire(1e9) == [("key", 3)]


def test_when_all_objects_of_a_key_were_seen_its_time_passes_whoever_is_silent() -> None:
    claimed = holding(3)
    claimed.hear("blue", -inf)
    claimed.reserve("key", 4, 10.0)
    claimed.reserve("other", 3, 0.0)
    assert claimed.give_up("key", ASSUMED_SECONDS + 5.0) == [3]
    assert (claimed.of("key"), claimed.of("other")) == ([4], [3])


def test_what_never_expires_is_kept_and_costs_nothing_more_each_time() -> None:
    claimed = holding(3, seconds=inf)
    for _ in range(100):
        claimed.release("key", 3)
        claimed.reserve("key", 3, 0.0)
    assert not claimed.expire(1e9)
    assert len(claimed) == 1
    assert not claimed._queue  # noqa: SLF001 - a queue that only grows is seen nowhere else
