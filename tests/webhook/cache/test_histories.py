"""Any history of pods, in lists and watches that are interrupted, gives the correct index."""

import asyncio
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.fake_api import PODS, FakeApi, Fault
from tests.harness.following import Following, eventually, following
from tests.harness.objects import KEY, a_pod, served_by_another, terminating
from webhook.api.review import ClusterUnreadable
from webhook.groups.identity import HostIdentity
from webhook.groups.required_reads import ReadGroup
from webhook.kubeclient.timeouts import Timing

HASTY = Timing(
    page_items=3, page_deadline=2.0, idle=2.0, watch_interval=0.001, steady=0.0, first_delay=0.001,
    longest_delay=0.004)  # fmt: skip
IDENTITIES = st.builds(
    lambda replica, host: HostIdentity(replica, host, f"tpu-{replica}"),
    st.integers(0, 1),
    st.integers(0, 1),
)
FAULTS = st.sampled_from([
    Fault.RESET, Fault.BROKEN, Fault.EXPIRED, Fault.EXPIRED_EVENT, Fault.GARBAGE, Fault.TRUNCATED,
    Fault.CUT, Fault.BRIEF,
])  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, IDENTITIES),
        st.tuples(st.just("adopt"), NAMES, IDENTITIES), st.tuples(st.just("bare"), NAMES),
        st.tuples(st.just("terminate"), NAMES), st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("recreate"), NAMES, IDENTITIES),
        st.tuples(st.just("watch fails"), FAULTS),
        st.tuples(
            st.just("list fails"),
            st.sampled_from([Fault.RESET, Fault.BROKEN, Fault.EXPIRED, Fault.GARBAGE, Fault.CUT])),
        st.tuples(st.just("token expires")), st.tuples(st.just("compact")),
        st.tuples(st.just("disconnect")), st.tuples(st.just("read")), st.tuples(st.just("wait"))),
    max_size=40)  # fmt: skip


class Truth:
    """The pods as the API server has them, and the identities they hold."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.identities: dict[str, HostIdentity | None] = {}

    def put(self, name: str, identity: HostIdentity | None, *, adopted: bool = False) -> None:
        pod = a_pod(name, None if adopted else identity)
        if adopted and identity:
            pod = served_by_another(pod, identity.name, str(identity.host))
        self.api.put(PODS, pod)
        self.identities[name] = identity

    def end(self, name: str, *, terminates: bool = False) -> None:
        """Delete a pod, or only begin to."""
        if name not in self.identities:
            return
        if terminates:
            self.api.put(PODS, terminating(a_pod(name, self.identities[name])))
            self.identities[name] = None
        else:
            self.api.delete(PODS, name)
            del self.identities[name]

    def held(self) -> list[HostIdentity]:
        return sorted(
            (identity for identity in self.identities.values() if identity),
            key=lambda identity: (identity.replica, identity.host, identity.name),
        )


async def take(step: tuple[object, ...], truth: Truth, f: Following) -> None:
    match step:
        case ("put", str(name), HostIdentity() as identity):
            truth.put(name, identity)
        case ("adopt", str(name), HostIdentity() as identity):
            truth.put(name, identity, adopted=True)
        case ("bare", str(name)):
            truth.put(name, None)
        case ("terminate", str(name)):
            truth.end(name, terminates=True)
        case ("delete", str(name)):
            truth.end(name)
        case ("recreate", str(name), HostIdentity() as identity):
            truth.end(name)
            truth.put(name, identity)
        case ("read",):
            with suppress(ClusterUnreadable):  # a fault that was meant for the list may hit it
                await f.state.reader.read(ReadGroup("ray", KEY))
                assert f.identities(KEY) == truth.held()
        case ("wait",):
            await asyncio.sleep(0)
        case _:
            disturb(step, truth.api)


def disturb(step: tuple[object, ...], api: FakeApi) -> None:
    match step:
        case ("watch fails", Fault() as fault):
            api.plan("watch", fault)
            api.drop_connections()
        case ("list fails", Fault() as fault):
            api.plan("list", fault)
        case ("token expires",):
            api.continue_expires += 1
        case ("compact",):
            api.compact()
            api.drop_connections()
        case ("disconnect",):
            api.drop_connections()


async def story(steps: list[tuple[object, ...]]) -> None:
    async with FakeApi(pieces=3).serving() as api:
        truth = Truth(api)
        async with following(api, timing=HASTY) as f:
            for step in steps:
                await take(step, truth, f)
            truth.put("last", HostIdentity(9, 0, "tpu-9"))
            await eventually(lambda: f.synced and f.identities(KEY) == truth.held())
            assert not f.state.malformed


@settings(max_examples=70)
@given(STEPS)
def test_the_membership_ends_right_in_any_order_of_events(steps: list[tuple[object, ...]]) -> None:
    asyncio.run(story(steps))
