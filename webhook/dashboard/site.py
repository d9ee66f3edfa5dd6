"""The site: what the application of `webhook.http.site` shows, out of what `Live` keeps."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import sha256
from inspect import cleandoc
from re import compile as pattern
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup

from webhook.dashboard.access import Access
from webhook.dashboard.board import Found
from webhook.dashboard.detail import commands_of, events_of, facts_of
from webhook.dashboard.drawing import HtmlDrawer, assets
from webhook.dashboard.feed import Shown, framed
from webhook.dashboard.live import Live
from webhook.dashboard.query import SORTS, Query, query_of
from webhook.dashboard.view import HOST_STATES, STATES, instant, told
from webhook.http.site import NotNowError, Sight
from webhook.status.account import Account, account_due, seat_labels, tell
from webhook.status.diagnosis import ERROR, Trouble
from webhook.status.document import Status, described, encoded, written
from webhook.status.examination import DIAGNOSES
from webhook.status.objects import LivePod
from webhook.status.words import counted
from webhook.status.world import owner_of

STREAMS: Final = 16
"""How many streams of changes a user may have open."""
BEAT_SECONDS: Final = 15.0
"""How often a stream says something: who looks is asked again then, and proxies see it lives."""
_NUMBER: Final = pattern(r"\d{1,6}")


class PodStory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What there is to tell of a pod. Without `account` it is neither a head nor has it a seat."""

    namespace: str
    name: str
    phase: str
    what: str
    labels: dict[str, str]
    account: Account | None = None
    troubles: tuple[Trouble, ...] = ()


class Chip(msgspec.Struct, frozen=True):
    """A filter of the page: its link, and whether it is chosen."""

    id: str
    text: str
    href: str
    chosen: bool


class DashboardSite:
    """Shows what is live to those whom `access` knows."""

    def __init__(self, live: Live, access: Access, drawer: HtmlDrawer) -> None:
        self._live = live
        self._access = access
        self._drawer = drawer
        self._streams: Counter[str] = Counter()
        self._assets = assets()
        digest = sha256(b"".join(body for body, _ in self._assets.values())).hexdigest()[:10]
        self._asset_version = digest
        self.links = not access.tokens
        self.enter = access.enter
        self.leave = access.leave
        self.sight = access.sight

    @property
    def schemas(self) -> dict[str, Any]:
        """JSON Schemas of `Status` and `Pod`, and what these refer to."""
        found = described((Status, PodStory), "#/components/schemas/{name}")
        pod = found.pop(PodStory.__name__)
        return {**found, "Pod": pod | {"title": "Pod"}}

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """Return a file that every page needs: content and type."""
        return self._assets.get(name)

    def sign_in(self, wrong: str) -> str:
        """Return the page that asks for a token."""
        return self._page("enter", wrong=wrong, tokens=self._access.tokens)

    def page(self, sight: Sight, parameters: Mapping[str, str]) -> str:
        """Return the page."""
        query = query_of(parameters)
        found = self._find(sight, query)
        shown = self._shown(sight, query, found)
        beside, after, _ = map(Markup, shown.around)
        return self._page(
            "page",
            problems=self._problems(sight, query, found),
            user=sight.user,
            options=Markup(self._options(query, found)),  # noqa: S704 - of our template
            query=query,
            sorts=SORTS,
            feed=urlencode({**query.parameters, "since": shown.version}),
            beside=beside,
            clusters=Markup(shown.html),  # noqa: S704 - of our templates
            after=after,
            states=HOST_STATES,
        )

    def pod(self, sight: Sight, namespace: str, name: str, *, part: bool) -> str | None:
        """Return what there is to tell of a pod."""
        story = self._story(sight, namespace, name)
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
            events=events_of(pod, survey.world.events.of(namespace)),
            labels=story.labels.items(),
            told=[told(each) for each in story.troubles],
            heading="What it was given, and why",
            given=account.given if account else (),
        )

    def host(self, sight: Sight, place: dict[str, str], *, part: bool) -> str | None:
        """Return what there is to tell of a host, which may have a pod by now: its place is its
        namespace, cluster, group, replica and host.
        """
        namespace, group = place.get("namespace", ""), place.get("group", "")
        numbers = [place.get("replica", ""), place.get("host", "")]
        title = f"host {numbers[1]} of replica {numbers[0]}"
        if not _sees(sight, namespace) or not all(map(_NUMBER.fullmatch, numbers)):
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
        """Return what a diagnosis means."""
        found = next((each for each in DIAGNOSES if each.id == name), None)
        if found is None:
            return None
        when = f"counts after {found.seconds:.0f} s" if found.seconds else "counts at once"
        text = cleandoc(found.check.__doc__ or "").split("\n\n")
        page = f"With an example: {found.page}"
        return self._panel(
            found.id, part=part, lines=[f"{found.level}, {when}"], text=[*text, page]
        )

    def streams(self, sight: Sight) -> bool:
        """Return whether a user may open another stream of changes."""
        return self._streams[sight.user] < STREAMS

    async def events(
        self,
        look: Callable[[], Awaitable[Sight | None]],
        parameters: Mapping[str, str],
        since: str,
    ) -> AsyncIterator[bytes]:
        """Yield messages that keep a page up to date, until the user signs out, the rights of the
        user cannot be read, or the process ends.
        """
        first = await self._sight(look)
        if first is None or not self.streams(first):
            return
        self._streams[first.user] += 1
        try:
            async for message in self._messages(look, query_of(parameters), since):
                yield message
        finally:
            self._streams[first.user] -= 1
            self._streams += Counter()  # without users that have none

    async def _sight(self, look: Callable[[], Awaitable[Sight | None]]) -> Sight | None:
        """Return who has a stream; None also when the process ends first, or the API server does
        not answer.
        """
        try:
            return await self._live.unless_closed(look())
        except NotNowError:
            return None

    async def _messages(
        self, look: Callable[[], Awaitable[Sight | None]], query: Query, since: str
    ) -> AsyncIterator[bytes]:
        before: Shown | None = None
        yield b"retry: 2000\n\n"
        while not self._live.closing:
            news = self._live.news
            sight = await self._sight(look)
            if sight is None:
                return
            shown = self._shown(sight, query, self._find(sight, query))
            messages = [] if shown.version == since else shown.since(before)
            before, since = shown, shown.version
            for message in messages[:-1]:
                yield framed(message, "")
            yield framed(messages[-1], since) if messages else b": still here\n\n"
            await self._live.wait(news, BEAT_SECONDS)

    async def status_json(self, sight: Sight, namespace: str) -> AsyncIterator[bytes]:
        """Yield the picture as JSON. Others get their turn between two RayClusters."""
        live = self._live
        picture = live.survey.picture(live.clock(), _scope(sight, namespace), live.unread)
        for part in encoded(picture):
            yield part
            await asyncio.sleep(0)

    def pod_json(self, sight: Sight, namespace: str, name: str) -> bytes | None:
        """Return what there is to tell of a pod as JSON."""
        story = self._story(sight, namespace, name)
        return None if story is None else msgspec.json.encode(written(story))

    def _story(self, sight: Sight, namespace: str, name: str) -> PodStory | None:
        survey = self._live.survey
        pod = survey.pod(namespace, name) if _sees(sight, namespace) else None
        if pod is None:
            return None
        uid = owner_of(pod)
        what, account = tell(survey.standing(uid, self._live.clock()), pod)
        cluster = survey.clusters.get(uid)
        about = (each for each in (cluster.troubles if cluster else ()) if name in each.pods)
        labels = dict(seat_labels(pod))
        return PodStory(namespace, name, _phase(pod), what, labels, account, tuple(about))

    def _find(self, sight: Sight, query: Query) -> Found:
        return self._live.board.find(query, sight.namespaces)

    def _shown(self, sight: Sight, query: Query, found: Found) -> Shown:
        options = self._options(query, found)
        around = {
            self._beside(sight, query, found): "outerMorph",
            self._after(query, found): "outerMorph",
            f'<select id="namespace">{options}</select>': "innerMorph",
        }
        return Shown(found.shown, around)

    def _problems(self, sight: Sight, query: Query, found: Found) -> int:
        """Return how many errors there are: those of RayClusters, and those that are none's."""
        return found.errors + sum(each.level == ERROR for each in self._troubles(sight, query))

    def _troubles(self, sight: Sight, query: Query) -> tuple[Trouble, ...]:
        everything = sight.namespaces is None and not query.namespace
        return self._live.survey.troubles if everything else ()

    def _beside(self, sight: Sight, query: Query, found: Found) -> str:
        """Return what the page says of all RayClusters together, and of none of them."""
        live, states, troubles = self._live, found.states, self._troubles(sight, query)
        outage = (
            f"No news from the API server ({live.source.trouble}): showing the last known state."
        )
        return self._page(
            "beside",
            problems=self._problems(sight, query, found),
            summary=_summary(found, len(troubles)) if live.source.synced else "Reading the cluster",
            states=[
                Chip(state, f"{states.get(state, 0)} {text}", query.toggled("state", state), chosen)
                for state, text in STATES.items()
                if (chosen := query.state == state) or state in states
            ],
            chips=[
                Chip(problem, f"{count}", query.toggled("problem", problem), chosen)
                for problem, count in found.problems.items()
                if (chosen := query.problem == problem) or not query.cluster
            ],
            trouble=outage if live.source.trouble else "",
            told=[told(each) for each in troubles],
            back=Query().address if query.cluster else "",
        )

    def _after(self, query: Query, found: Found) -> str:
        """Return what follows the RayClusters: other pages, and what was not read."""
        nothing = ""
        if not found.shown:
            nothing = (
                "No RayCluster matches."
                if found.namespaces
                else "There is no RayCluster here that you may see."
            )
        return self._page(
            "after",
            nothing=nothing,
            before=query.at(found.page - 1) if found.page > 1 else "",
            next=query.at(found.page + 1) if found.page < found.pages else "",
            pages=f"page {found.page} of {found.pages}",
            unread=self._live.unread,
        )

    def _options(self, query: Query, found: Found) -> str:
        every = sorted({*found.namespaces, *filter(None, [query.namespace])})
        return self._page("options", namespaces=every, namespace=query.namespace)

    def _absent(self, title: str, *, part: bool) -> str | None:
        """Return what an open page shows of a thing that is gone since; there is no page of it."""
        if not part:
            return None
        return self._panel(title, part=True, lines=["It is not there, or you may not see it."])

    def _panel(self, title: str, *, part: bool, **values: Any) -> str:  # noqa: ANN401 - as below
        empty = {"heading": "", "due": False, "created": None}
        lists = ("labels", "facts", "commands", "events", "told", "given", "text")
        html = self._page("panel", title=title, **(empty | dict.fromkeys(lists, ()) | values))
        if part:
            return html
        return self._page("alone", title=title, content=Markup(html))  # noqa: S704 - our template

    def _page(self, name: str, **values: Any) -> str:  # noqa: ANN401 - what the template shows
        return self._drawer.page(name, asset=self._asset_path, **values)

    def _asset_path(self, name: str) -> str:
        return f"/static/{name}?v={self._asset_version}"


def _scope(sight: Sight, namespace: str) -> frozenset[str] | None:
    """Return the namespaces that are shown: those that may be seen, or one of them."""
    if not namespace:
        return sight.namespaces
    return frozenset({namespace} if _sees(sight, namespace) else ())


def _sees(sight: Sight, namespace: str) -> bool:
    return sight.namespaces is None or namespace in sight.namespaces


def _summary(found: Found, installation: int) -> str:
    """Return in a sentence how many RayClusters there are, how many cannot be shown, and how many
    problems the installation has.
    """
    what = counted(found.every, "RayCluster")
    if found.failed:
        what += f", {found.failed} of them cannot be shown"
    if installation:
        what += f"; {counted(installation, 'problem')} of the installation"
    return what


def _remarked(account: Account | None) -> list[str]:
    return [each.text for each in account.remarks] if account else []


def _phase(pod: LivePod) -> str:
    return "Terminating" if pod.leaves else pod.status.phase or "Pending"
