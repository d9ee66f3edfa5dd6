"""`ray-webhook dashboard` on a real API server, and its page in a browser."""

import json
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Lock, Thread

from tests.e2e.api import Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import grant, token_kubeconfig
from tests.e2e.process import NO_ANSWER, Startable, free_port
from tests.harness.html_browser import Element, Tab

HOST = "127.0.0.1"
QUIET_SECONDS = 40
"""A stream says something more often than that."""

Problems = dict[str, set[str]]
"""The ids of problems by RayCluster; those of none under no name."""


class Dashboard(Startable):
    """`ray-webhook dashboard` of a person with a kubeconfig, by default the administrator."""

    def __init__(self, plane: ControlPlane, *flags: str, kubeconfig: Path | None = None) -> None:
        self._port = free_port()
        command = [
            *(sys.executable, "-m", "webhook.cli.main", "dashboard"),
            *(f"--port={self._port}", f"--kubeconfig={kubeconfig or plane.admin_kubeconfig}"),
            *(flags or ("-A",)),
        ]
        self._program = plane.process(f"dashboard-{self._port}", command)
        self._token = ""

    def start(self) -> None:
        self._program.start()
        self._program.wait_until(lambda: bool(self._printed()))
        (self._token,) = self._printed()

    def stop(self) -> None:
        self._program.stop()

    def _printed(self) -> list[str]:
        return re.findall(r"/enter\?token=(\S+)\n", self._program.log.read_text())

    def get(self, path: str) -> str:
        connection, answer = self.open(path)
        with closing(connection):
            text = answer.read().decode()
        assert answer.status == 200, text
        return text

    def open(self, path: str) -> tuple[HTTPConnection, HTTPResponse]:
        """Begin to get something; the caller closes the connection."""
        connection = HTTPConnection(HOST, self._port, timeout=QUIET_SECONDS)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        return connection, connection.getresponse()

    def cluster_report(self) -> Json:
        found: Json = json.loads(self.get("/api/v1/status"))
        return found

    def problems(self, namespace: str) -> Problems:
        return by_cluster(every_problem(self.cluster_report()), namespace)

    def open_page(self, words: str = "") -> "closing[OpenPage]":
        """Open the page with the RayClusters that contain some words, until the end of the block:
        a page lists no more than fifty, and other stories have some too.
        """
        return closing(OpenPage(self, words))


class OpenPage:
    """The page in somebody's browser: what is on it follows from the stream of changes alone."""

    def __init__(self, dashboard: Dashboard, words: str) -> None:
        self._tab = Tab(dashboard.get(f"/?q={words}"))
        (feed,) = self._tab.root.by_id("feed")
        self._connection, self._stream = dashboard.open(feed.attributes["hx-sse:connect"])
        assert self._stream.headers["content-type"].startswith("text/event-stream")
        self._lock = Lock()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._follow)
        self._thread.start()

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def clusters(self) -> set[str]:
        with self._held() as root:
            return {_name(each) for each in root.every("section", "cluster")}

    def problems(self, namespace: str) -> Problems:
        with self._held() as root:
            (beside,) = root.by_id("beside")
            found = {"": _ids(beside)}
            for section in root.every("section", "cluster"):
                place, _, name = _name(section).partition("/")
                if place == namespace:
                    found[name] = _ids(section)
        return {name: ids for name, ids in found.items() if ids}

    @contextmanager
    def _held(self) -> Iterator[Element]:
        """Yield what is on it, while nothing new is taken in. Fails when no one tells it news."""
        with self._lock:
            assert self._failure is None, f"the stream ended: {self._failure!r}"
            yield self._tab.root

    def _follow(self) -> None:
        try:
            lines: list[str] = []
            for line in self._stream:
                text = line.decode().rstrip("\n")
                if text:
                    lines.append(text)
                    continue
                message = "\n".join(
                    each.removeprefix("data: ") for each in lines if each.startswith("data: ")
                )
                lines = []
                if message:
                    with self._lock:
                        self._tab.take(message)
            self._failure = EOFError("nobody is told any more")
        except (*NO_ANSWER, ValueError, AssertionError) as error:
            self._failure = error


def every_problem(cluster_report: Json) -> Objects:
    return [
        *cluster_report.get("problems", ()),
        *(each for one in cluster_report["clusters"] for each in one.get("problems", ())),
    ]


def by_cluster(problems: Objects, namespace: str) -> Problems:
    found: Problems = {}
    for each in problems:
        if each.get("namespace", namespace) == namespace:
            found.setdefault(each.get("cluster", ""), set()).add(each["id"])
    return found


def kubeconfig_to_look(plane: ControlPlane, name: str, namespace: str) -> Path:
    plane.run_kubectl("create", "serviceaccount", name, "-n", namespace)
    account = f"--serviceaccount={namespace}:{name}"
    grant(plane, namespace, name, "list,watch", "rayclusters.ray.io,pods", account)
    path = plane.folder / f"{name}-kubeconfig"
    token_kubeconfig(plane, path, name, namespace)
    return path


def _name(section: Element) -> str:
    (title,) = section.every("h2")
    return "".join(title.text.split())


def _ids(element: Element) -> set[str]:
    return {each.text for each in element.every("a", "explain")}
