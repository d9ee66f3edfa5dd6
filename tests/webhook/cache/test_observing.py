"""The observed state stays during an outage, and equals a snapshot after it."""

from tests.harness.fake_api import PODS, FakeApi, Fault
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import Scene
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"


async def test_changes_during_an_outage_are_seen_by_the_next_list(api: FakeApi) -> None:
    api.store(Scene().resources)
    object_cache = ObjectCache()

    def pods() -> set[str]:
        return {pod.name for pod in object_cache.pods.all}

    async with client_of(plain(api)) as client:
        observing = Observing(client, object_cache, timing=QUICK, other_kinds=REPORTED)
        async with beside(observing.run()):
            await eventually(lambda: observing.listed)
            assert len(pods()) == 9
            api.mute()
            api.delete(PODS, HOST, "team")
            api.compact()
            api.plan("watch", Fault.EXPIRED)
            await api.down()
            await eventually(lambda: observing.problem == "refused")
            assert len(pods()) == 9
            await api.up()
            await eventually(lambda: HOST not in pods())
            assert len(pods()) == 8
