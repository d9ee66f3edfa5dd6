"""What is stored of an object: the parts that somebody reads."""

from msgspec import convert

from webhook.objects.live_objects import MESSAGE_MAX, LivePod
from webhook.objects.transforms import PodParts


def test_the_end_of_a_long_termination_message_is_stored() -> None:
    end = {"exitCode": 1, "message": "a line\n" * 1000 + "the last line"}
    statuses = [
        {"name": "a", "state": {"terminated": end}, "lastState": {"terminated": end}},
        {"name": "b", "state": {"running": {}}},
    ]
    pod = convert({"metadata": {"name": "p"}, "status": {"containerStatuses": statuses}}, LivePod)
    status, other = PodParts().compact_pod(pod).status.container_statuses or ()
    for stored in (status.state.terminated, status.last_end):
        assert stored is not None
        assert (stored.exit_code, len(stored.message)) == (1, MESSAGE_MAX)
        assert stored.message.endswith("a line the last line")
    assert other.state.running is not None
