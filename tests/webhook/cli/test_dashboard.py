"""`ray-webhook dashboard` as a process: on files, and on a cluster."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi
from tests.harness.running import At, Run, Write
from tests.harness.scenes import NOW, Scene
from tests.harness.served import kubeconfig
from tests.harness.server import serving_dashboard
from tests.webhook.diagnostics.samples import samples
from webhook.api.times import text_of


@contextmanager
def running(*arguments: str) -> Iterator[tuple[httpx.Client, httpx.Response]]:
    """Run the command, and yield a client and the page at the printed address."""
    with (
        serving_dashboard(*arguments) as address,
        httpx.Client(follow_redirects=True, timeout=60) as client,
    ):
        path = address.partition("/enter")[0] + "/api/v1/status"
        assert client.get(path).status_code == 401
        yield client, client.get(address)


def test_files_are_shown_to_whoever_has_the_printed_address() -> None:
    with running("--state", "tests/state.yaml", "--state", "examples") as (client, page):
        assert "multi-slice" in page.text
        found = client.get(str(page.url.join("/api/v1/status"))).json()
        assert "not in the files" in found["unread"]["events"]


def test_a_state_is_shown_as_of_the_time_of_its_file(write: Write) -> None:
    scene, now = samples()["host-missing"].scene(), text_of(NOW)
    unread = {"events": "events are forbidden"}
    state = {"kind": "RayState", "metadata": {"name": "state"}, "now": now, "unread": unread}
    path = write(state, scene.cluster, *scene.pods.values())
    with running("--state", str(path)) as (client, page):
        assert f'data-now="{now}"' in page.text
        status = client.get(str(page.url.join("/api/v1/status"))).json()
    assert status["now"] == now
    assert status["unread"]["events"] == unread["events"]


async def test_a_cluster_is_shown_by_the_users_own_kubeconfig(tmp_path: Path) -> None:
    def with_cluster(config: str) -> None:
        with running("-A", "--kubeconfig", config) as (client, page):
            status = str(page.url.join("/api/v1/status"))
            while not (found := client.get(status).json())["clusters"]:
                pass
            assert found["degraded"] is True

    async with FakeApi().serving() as fake:
        fake.store(samples()["host-missing"].scene().resources)
        config = kubeconfig(tmp_path, fake.port)
        await asyncio.to_thread(with_cluster, str(config))
        before = [(each.resource, each.query["limit"]) for each in fake.requests[:2]]
        assert before == [(RAYCLUSTERS, "1"), (PODS, "1")], "it listens before it lists"


def test_an_unreachable_cluster_is_an_error_before_the_start(at: At) -> None:
    command = ("dashboard", "-A", "--port", "0")
    ended = at(Scene(), *command, change=lambda server: server.refused.add("/api/v1/pods"))
    assert (ended.status, "ask for the permission" in ended.err) == (2, True)


def test_wrong_arguments_are_named(run: Run, write: Write) -> None:
    wrong = write({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": 7}})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for said, *flags in (
            (str(wrong), "--state", wrong, "--port", 0),
            ("choose another", "--state", "examples", "--port", port),
        ):
            ended = run("dashboard", *flags)
            assert (ended.status, said in ended.err) == (2, True)
