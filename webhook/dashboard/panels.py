"""Panels of the page: a pod, a host or a diagnosis."""

from collections.abc import Iterator
from inspect import cleandoc
from re import compile as pattern
from typing import Any, Final

import msgspec
from markupsafe import Markup

from webhook.dashboard.live_updates import LiveRenderer
from webhook.dashboard.rendered import HtmlDrawer
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import Problem
from webhook.diagnostics.document import encode_json
from webhook.diagnostics.examination import DIAGNOSES
from webhook.diagnostics.messages import describe
from webhook.explain.pod_explanation import (
    PodExplanation,
    describe_pod,
    explain_missing_host,
    identity_labels,
)
from webhook.objects.live_objects import LiveEvent, LivePod
from webhook.objects.object_cache import ObjectCache

_NUMBER: Final = pattern(r"\d{1,6}")
_EVENTS: Final = 10
"""The number of events shown: the latest of a pod."""
_DASHBOARD_PORT: Final = 8265
"""The port of the Ray dashboard.

https://docs.ray.io/en/latest/ray-observability/getting-started.html
"""


class PodDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The explanation of a pod. Without `account`, the pod is no head and has no identity."""

    namespace: str
    name: str
    phase: str
    what: str
    labels: dict[str, str]
    account: PodExplanation | None = None
    problems: tuple[Problem, ...] = ()


class Panels:
    """Renders panels as parts of the page, or as separate pages."""

    def __init__(self, live: LiveRenderer, drawer: HtmlDrawer) -> None:
        self._live = live
        self._drawer = drawer

    def pod(self, namespace: str, name: str, *, part: bool) -> str | None:
        pod = self._live.examiner.pod(namespace, name)
        if pod is None:
            return self._absent(f"{namespace}/{name}", part=part)
        details, examiner = self._details(pod), self._live.examiner
        account = details.account
        cluster = examiner.clusters.get(examiner.owner(pod))
        return self._panel(
            f"{namespace}/{name}",
            part=part,
            lines=[f"{details.phase}: {details.what}", *_list_remarks(account)],
            created=pod.created,
            properties=_properties(pod, cluster),
            commands=_commands(pod, cluster),
            events=_list_events(pod, examiner.object_cache),
            labels=details.labels.items(),
            listed_problems=details.problems,
            heading="What it was given, and why",
            given=account.given if account else (),
        )

    def host(self, place: dict[str, str], *, part: bool) -> str | None:
        """Return the panel of a host. `place`: namespace, cluster, group, replica, host."""
        namespace, group = place.get("namespace", ""), place.get("group", "")
        numbers = [place.get("replica", ""), place.get("host", "")]
        title = f"host {numbers[1]} of replica {numbers[0]}"
        if not all(map(_NUMBER.fullmatch, numbers)):
            return self._absent(title, part=part)
        replica, host = map(int, numbers)
        examiner = self._live.examiner
        uid = examiner.named(namespace, place.get("cluster", ""))
        cluster, assigned = examiner.clusters.get(uid), examiner.assigned(uid, self._live.clock())
        if cluster is None or assigned is None:
            return self._absent(title, part=part)
        if pod := cluster.pod_at(group, replica, host):
            return self.pod(namespace, pod, part=part)
        about = [
            problem
            for problem in cluster.problems
            if (problem.group, problem.replica) == (group, replica) and host in problem.hosts
        ]
        account = explain_missing_host(assigned, group, replica, host)
        return self._panel(
            title,
            part=part,
            lines=[
                f"It has no pod now, in group {group} of {namespace}/{cluster.name}.",
                *_list_remarks(account),
            ],
            listed_problems=about,
            heading="What its next pod will be given, and why",
            given=account.given if account else (),
            due=True,
        )

    def diagnosis(self, name: str, *, part: bool) -> str | None:
        diagnosis = next((diagnosis for diagnosis in DIAGNOSES if diagnosis.id == name), None)
        if diagnosis is None:
            return None
        when = f"counts after {diagnosis.seconds:.0f} s" if diagnosis.seconds else "counts at once"
        paragraphs = cleandoc(diagnosis.check.__doc__ or "").split("\n\n")
        page = f"With an example: {diagnosis.page}"
        return self._panel(
            diagnosis.id, part=part, lines=[f"{diagnosis.level}, {when}"], text=[*paragraphs, page]
        )

    def pod_json(self, namespace: str, name: str) -> bytes | None:
        pod = self._live.examiner.pod(namespace, name)
        return None if pod is None else encode_json(self._details(pod))

    def _details(self, pod: LivePod) -> PodDetails:
        examiner = self._live.examiner
        uid = examiner.owner(pod)
        description, account = describe_pod(examiner.assigned(uid, self._live.clock()), pod)
        cluster = examiner.clusters.get(uid)
        about = (
            problem for problem in (cluster.problems if cluster else ()) if pod.name in problem.pods
        )
        labels, namespace = dict(identity_labels(pod)), pod.metadata.namespace or ""
        return PodDetails(
            namespace,
            pod.name,
            phase=_phase(pod),
            what=description,
            labels=labels,
            account=account,
            problems=tuple(about),
        )

    def _absent(self, title: str, *, part: bool) -> str | None:
        """Return the panel for a deleted object in an open page; a separate page is not found."""
        if not part:
            return None
        return self._panel(title, part=True, lines=["It does not exist any more."])

    def _panel(self, title: str, *, part: bool, **values: Any) -> str:  # noqa: ANN401 - as below
        empty = {"heading": "", "due": False, "created": None}
        lists = ("labels", "properties", "commands", "events", "listed_problems", "given", "text")
        html = self._drawer.page(
            "panel", title=title, **(empty | dict.fromkeys(lists, ()) | values)
        )
        if part:
            return html
        return self._drawer.page("alone", title=title, content=Markup(html))  # noqa: S704 - our template


def _list_remarks(account: PodExplanation | None) -> list[str]:
    return [remark.text for remark in account.remarks] if account else []


def _phase(pod: LivePod) -> str:
    return "Terminating" if pod.is_terminating else pod.status.phase or "Pending"


def _properties(pod: LivePod, cluster: report.RayClusterReport | None) -> Iterator[tuple[str, str]]:
    ray, status = pod.spec.ray, pod.ray_status
    every = {
        "Node": pod.spec.node_name or "",
        "Image": (ray and ray.image) or "",
        "Restarts": f"{status.restart_count}" if status else "",
        "PodGroup": pod.pod_group,
        "Ray version": cluster.ray_version if cluster else "",
        "Queue": cluster.queue if cluster else "",
        "Owner": cluster.owner if cluster else "",
    }
    yield from ((name, value) for name, value in every.items() if value)


def _commands(pod: LivePod, cluster: report.RayClusterReport | None) -> Iterator[tuple[str, str]]:
    namespace = pod.metadata.namespace or ""
    ray, status = pod.spec.ray, pod.ray_status
    yield "Conditions and events", describe("pod", namespace, pod.name)
    logs = f"kubectl logs -n {namespace} {pod.name}" + (f" -c {ray.name}" if ray else "")
    yield "Logs", logs
    if status and status.restart_count:
        yield "Logs before the restart", f"{logs} --previous"
    if cluster and cluster.head.pods:
        head = f"pod/{cluster.head.pods[0]}"
        forward = f"kubectl port-forward -n {namespace} {head} {_DASHBOARD_PORT}"
        yield f"Ray dashboard, at http://localhost:{_DASHBOARD_PORT}", forward


def _list_events(pod: LivePod, objects: ObjectCache) -> list[LiveEvent]:
    """Return the newest events of a pod, the last one first."""
    meta = pod.metadata
    ends = objects.events.of(f"{meta.namespace}/{pod.name}")
    events = [event for event in ends if event.involved_object.uid == meta.uid]
    events += objects.events_about(meta)
    return sorted(events, key=lambda event: event.last, reverse=True)[:_EVENTS]
