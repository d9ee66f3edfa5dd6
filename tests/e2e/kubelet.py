"""A fake kubelet: it reports that the containers of pods run, and removes deleted pods."""

from contextlib import suppress

from tests.e2e.api import PODS, Api, ApiError, Json
from tests.e2e.waiting import Repeated

_RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
_CRASHED: Json = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


class Kubelet(Repeated):
    """Looks after the pods of a namespace, but those of a Node that is `lost`."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(self._look)
        self.lost = ""
        self._api = api
        self._namespace = namespace

    def fail(self, pod: Json) -> None:
        self._say(pod, {"phase": "Failed"})

    def restart(self, pod: Json) -> None:
        self._say(pod, _status(pod, 1))

    def crash(self, pod: Json, restarts: int) -> None:
        self._say(pod, _status(pod, restarts, _CRASHED))

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
        with suppress(ApiError):  # it is gone
            self._api.set_status(PODS, pod["metadata"]["name"], status, self._namespace)


def _status(pod: Json, restarts: int, state: Json = _RUNNING) -> Json:
    statuses = [
        {
            "name": container["name"], "image": container["image"], "imageID": "",
            "ready": state is _RUNNING, "restartCount": restarts, "state": state,
        }
        for container in pod["spec"]["containers"]
    ]  # fmt: skip
    return {"phase": "Running", "containerStatuses": statuses}
