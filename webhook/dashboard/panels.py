"""Panels of the page: a pod, a host or a diagnosis."""

from inspect import cleandoc
from re import compile as pattern
from typing import Any, Final

import msgspec
from markupsafe import Markup

from webhook.dashboard.detail import commands_of, events_of, facts_of
from webhook.dashboard.live_updates import Live
from webhook.dashboard.routes import UserScope
from webhook.dashboard.templates import HtmlDrawer
from webhook.dashboard.view import instant, told
from webhook.diagnostics.diagnosis import Trouble
from webhook.diagnostics.examination import DIAGNOSES
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.object_cache import owner_of
from webhook.explain.pod_explanation import (
    Account,
    account_due,
    seat_labels,
    tell,
)

_NUMBER: Final = pattern(r"\d{1,6}")


class PodStory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The explanation of a pod. Without `account`, the pod is no head and has no identity."""

    namespace: str
    name: str
    phase: str
    what: str
    labels: dict[str, str]
    account: Account | None = None
    troubles: tuple[Trouble, ...] = ()


class Panels:
    """Renders panels as parts of the page, or as separate pages."""

    def __init__(self, live: Live, drawer: HtmlDrawer) -> None:
        self._live = live
        self._drawer = drawer

    def pod(self, sight: UserScope, namespace: str, name: str, *, part: bool) -> str | None:
        story = self.story(sight, namespace, name)
        if story is None:
            return self._absent(f"{namespace}/{name}", part=part)
        account, survey = story.account, self._live.survey
        pod = survey.pod(namespace, name)
        assert pod, "a pod that has a story"  # noqa: S101 - nothing runs in between
        cluster = survey.clusters.get(owner_of(pod))
        return self._panel(
            f"{namespace}/{name}",
            part=part,
            lines=[f"{story.phase}: {story.what}", *_remarked(account)],
            created=instant(pod.created),
            facts=facts_of(pod, cluster),
            commands=commands_of(pod, cluster),
            events=events_of(pod, survey.world.events.of(f"{namespace}/{name}")),
            labels=story.labels.items(),
            told=[told(each) for each in story.troubles],
            heading="What it was given, and why",
            given=account.given if account else (),
        )

    def host(self, sight: UserScope, place: dict[str, str], *, part: bool) -> str | None:
        """Return the panel of a host. `place`: namespace, cluster, group, replica, host."""
        namespace, group = place.get("namespace", ""), place.get("group", "")
        numbers = [place.get("replica", ""), place.get("host", "")]
        title = f"host {numbers[1]} of replica {numbers[0]}"
        if not sight.sees(namespace) or not all(map(_NUMBER.fullmatch, numbers)):
            return self._absent(title, part=part)
        replica, host = map(int, numbers)
        survey = self._live.survey
        uid = survey.named(namespace, place.get("cluster", ""))
        cluster, standing = survey.clusters.get(uid), survey.standing(uid, self._live.clock())
        if cluster is None or standing is None:
            return self._absent(title, part=part)
        if pod := cluster.pod_at(group, replica, host):
            return self.pod(sight, namespace, pod, part=part)
        about = [
            told(each)
            for each in cluster.troubles
            if (each.group, each.replica) == (group, replica) and host in each.hosts
        ]
        account = account_due(standing, group, replica, host)
        return self._panel(
            title,
            part=part,
            lines=[
                f"It has no pod now, in group {group} of {namespace}/{cluster.name}.",
                *_remarked(account),
            ],
            told=about,
            heading="What its next pod will be given, and why",
            given=account.given if account else (),
            due=True,
        )

    def diagnosis(self, name: str, *, part: bool) -> str | None:
        found = next((each for each in DIAGNOSES if each.id == name), None)
        if found is None:
            return None
        when = f"counts after {found.seconds:.0f} s" if found.seconds else "counts at once"
        text = cleandoc(found.check.__doc__ or "").split("\n\n")
        page = f"With an example: {found.page}"
        return self._panel(
            found.id, part=part, lines=[f"{found.level}, {when}"], text=[*text, page]
        )

    def story(self, sight: UserScope, namespace: str, name: str) -> PodStory | None:
        """Return the explanation of a pod; None if it does not exist or is not visible."""
        survey = self._live.survey
        pod = survey.pod(namespace, name) if sight.sees(namespace) else None
        if pod is None:
            return None
        uid = owner_of(pod)
        what, account = tell(survey.standing(uid, self._live.clock()), pod)
        cluster = survey.clusters.get(uid)
        about = (each for each in (cluster.troubles if cluster else ()) if name in each.pods)
        labels = dict(seat_labels(pod))
        return PodStory(namespace, name, _phase(pod), what, labels, account, tuple(about))

    def _absent(self, title: str, *, part: bool) -> str | None:
        """Return the panel for a deleted object in an open page; a separate page is not found."""
        if not part:
            return None
        return self._panel(title, part=True, lines=["It is not there, or you may not see it."])

    def _panel(self, title: str, *, part: bool, **values: Any) -> str:  # noqa: ANN401 - as below
        empty = {"heading": "", "due": False, "created": None}
        lists = ("labels", "facts", "commands", "events", "told", "given", "text")
        html = self._drawer.page(
            "panel", title=title, **(empty | dict.fromkeys(lists, ()) | values)
        )
        if part:
            return html
        return self._drawer.page("alone", title=title, content=Markup(html))  # noqa: S704 - our template


def _remarked(account: Account | None) -> list[str]:
    return [each.text for each in account.remarks] if account else []


def _phase(pod: LivePod) -> str:
    return "Terminating" if pod.leaves else pod.status.phase or "Pending"
