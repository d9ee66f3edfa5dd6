"""Who holds a seat: pods apart from claims, whichever came first."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat

KEY = GroupKey("ns", "uid", "tpu")
SEATS = [Seat(replica, host, name) for replica in (0, 1) for host in (0, 1) for name in ("a", "b")]
PODS = [f"pod-{number}" for number in range(4)]

steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "assume", "expire", "hold", "free"]),
        st.sampled_from(PODS),
        st.sampled_from(SEATS),
    ),
    max_size=40,
)


@given(steps)
def test_a_pod_in_a_seat_is_told_from_claims_of_it(steps: list[tuple[str, str, Seat]]) -> None:
    members, pods, held = Membership(), dict[str, Seat](), Counter[Seat]()
    members.hear("watch", 0.0)
    now = 0.0
    for what, pod, seat in steps:
        if what == "put":
            members.put(pod, KEY, seat)
            pods[pod] = seat
        elif what == "remove":
            members.remove(pod)
            pods.pop(pod, None)
        elif what == "assume":
            members.assume(KEY, seat, now)
        elif what == "expire":
            now += ASSUMED_SECONDS / 2
            members.hear("watch", now)
            members.expire(now)
        elif what == "hold":
            members.hold(KEY, seat)
            held[seat] += 1
        elif held[seat]:
            members.free(KEY, seat)
            held[seat] -= 1
        assert [each for each in SEATS if members.has_pod(KEY, each)] == [
            each for each in SEATS if each in pods.values()
        ]
