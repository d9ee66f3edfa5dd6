"""A fake kubelet: it reports that the containers of pods run, and removes deleted pods."""

from contextlib import suppress
from threading import Event, Thread
from typing import Self

from tests.e2e.api import MERGE_PATCH, PODS, Api, ApiError, Json

_EVERY = 0.2
_RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
_CRASHED: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


class Kubelet:
    """Looks after the pods of a namespace, but those of a Node that is `lost`."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.lost = ""
        self._api = api
        self._namespace = namespace
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def fail(self, pod: Json) -> None:
        self._say(pod, {"phase": "Failed"})

    def restart(self, pod: Json) -> None:
        self._say(pod, _status(pod, 1))

    def crash(self, pod: Json, restarts: int) -> None:
        self._say(pod, _status(pod, restarts, _CRASHED))

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            with suppress(ApiError, OSError):  # no answer now; the next round asks again
                self._look()

    def _look(self) -> None:
        for pod in self._api.list(PODS, self._namespace):
            if self.lost and pod["spec"].get("nodeName") == self.lost:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                with suppress(ApiError):  # it is gone
                    self._api.delete(PODS, pod["metadata"]["name"], self._namespace, grace=0)
            elif pod["status"].get("phase") == "Pending":
                self._say(pod, _status(pod, 0))

    def _say(self, pod: Json, status: Json) -> None:
        path = PODS.path(self._namespace, pod["metadata"]["name"], "status")
        with suppress(ApiError):  # it is gone
            self._api.request("PATCH", path, {"status": status}, MERGE_PATCH)


def _status(pod: Json, restarts: int, state: Json = _RUNNING) -> Json:
    statuses = [
        {
            "name": container["name"], "image": container["image"], "imageID": "",
            "ready": state is _RUNNING, "restartCount": restarts, "state": state,
        }
        for container in pod["spec"]["containers"]
    ]  # fmt: skip
    return {"phase": "Running", "containerStatuses": statuses}
