"""Continuous scrapes do not delay reviews."""

from itertools import count

from webhook.metrics.collector import PacedScrapes


def test_scrapes_are_made_anew_until_they_are_too_many_and_again_later() -> None:
    numbers, now = count(), [0.0]
    scrapes = PacedScrapes(lambda: (b"%d" % next(numbers), "text"), lambda: now[0])
    assert [scrapes()[0] for _ in range(22)][-3:] == [b"19", b"19", b"19"]
    now[0] = 0.2
    assert [scrapes()[0] for _ in range(2)] == [b"20", b"20"]
    now[0] = 60.0
    assert len({scrapes()[0] for _ in range(30)}) == 20


def test_a_long_exposition_is_followed_by_a_pause_in_which_the_last_one_is_sent_again() -> None:
    numbers, now = count(), [0.0]

    def make() -> tuple[bytes, str]:
        now[0] += 0.5
        return b"%d" % next(numbers), "text"

    scrapes = PacedScrapes(make, lambda: now[0])
    assert [scrapes()[0] for _ in range(3)] == [b"0", b"0", b"0"]
    now[0] = 10.4
    assert scrapes()[0] == b"0"
    now[0] = 10.6
    assert scrapes()[0] == b"1"
