"""The site: what the application of `webhook.http.site` shows, out of what `Live` keeps."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from inspect import cleandoc
from re import compile as pattern
from secrets import token_hex
from typing import Any, Final

import msgspec
from markupsafe import Markup

from webhook.dashboard.access import Access
from webhook.dashboard.drawing import HtmlDrawer, assets
from webhook.dashboard.live import Live
from webhook.dashboard.view import STATES, summary_of, told
from webhook.http.site import NotNowError, Sight
from webhook.status.account import Account, account_due, seat_labels, tell
from webhook.status.diagnosis import Trouble
from webhook.status.document import Status, described, document, written
from webhook.status.examination import DIAGNOSES
from webhook.status.objects import LivePod
from webhook.status.world import owner_of

STREAMS: Final = 16
"""How many streams of changes a user may have open."""
BEAT_SECONDS: Final = 15.0
"""How often a stream says something: who looks is asked again then, and proxies see it lives."""
_LINES: Final = pattern(r"\r\n|\r|\n")
_NUMBER: Final = pattern(r"\d{1,6}")
_VERSION: Final = pattern(r"[0-9]{1,18}")
"""Of a board, as a browser gives it back; Python itself reads no number of more than 4,300 digits.
"""


class PodStory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What there is to tell of a pod. Without `account` it is neither a head nor has it a seat."""

    namespace: str
    name: str
    phase: str
    what: str
    labels: dict[str, str]
    account: Account | None = None
    troubles: tuple[Trouble, ...] = ()


class DashboardSite:
    """Shows what is live to those whom `access` knows."""

    def __init__(self, live: Live, access: Access, drawer: HtmlDrawer) -> None:
        self._live = live
        self._access = access
        self._drawer = drawer
        self._epoch = token_hex(4)
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

    def page(self, sight: Sight, namespace: str, *, trouble: bool) -> str:
        """Return the page."""
        scope = _scope(sight, namespace)
        return self._page(
            "page",
            user=sight.user,
            options=Markup(self._options(sight, namespace)),  # noqa: S704 - of our template
            namespace=namespace,
            trouble=trouble,
            since=self._seen(scope),
            beside=Markup(self._beside(scope)),  # noqa: S704 - of our template
            clusters=Markup(self._live.board.html(scope)),  # noqa: S704 - of our templates
            states=STATES,
        )

    def pod(self, sight: Sight, namespace: str, name: str, *, part: bool) -> str | None:
        """Return what there is to tell of a pod."""
        story = self._story(sight, namespace, name)
        if story is None:
            return self._absent(f"{namespace}/{name}", part=part)
        account = story.account
        return self._panel(
            f"{namespace}/{name}",
            part=part,
            lines=[f"{story.phase}: {story.what}", *_remarked(account)],
            labels=story.labels.items(),
            told=[told(each) for each in story.troubles],
            heading="What it was given, and why",
            given=account.given if account else (),
        )

    def host(self, sight: Sight, place: dict[str, str], *, part: bool) -> str | None:
        """Return what there is to tell of a host without a pod: its place is its namespace,
        cluster, group, replica and host.
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
        self, look: Callable[[], Awaitable[Sight | None]], namespace: str, since: str
    ) -> AsyncIterator[bytes]:
        """Yield messages that keep a page up to date, until the user signs out, the rights of the
        user cannot be read, or the process ends.
        """
        first = await self._sight(look)
        if first is None or not self.streams(first):
            return
        self._streams[first.user] += 1
        try:
            async for message in self._messages(look, namespace, since):
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
        self, look: Callable[[], Awaitable[Sight | None]], namespace: str, since: str
    ) -> AsyncIterator[bytes]:
        shown: set[str] = set()
        yield b"retry: 2000\n\n"
        while not self._live.closing:
            news = self._live.news
            sight = await self._sight(look)
            if sight is None:
                return
            scope = _scope(sight, namespace)
            version = self._live.board.version
            messages = self._changes(since, scope)
            around = {_replacing(self._beside(scope)), self._choice(sight, namespace)}
            messages += sorted(around - shown)
            shown, since = around, self._seen(scope, version)
            for message in messages[:-1]:
                yield _framed(message, "")
            yield _framed(messages[-1], since) if messages else b": still here\n\n"
            await self._live.wait(news, BEAT_SECONDS)

    def status_json(self, sight: Sight, namespace: str) -> bytes:
        """Return the picture as JSON."""
        live = self._live
        picture = live.survey.picture(live.clock(), _scope(sight, namespace), live.unread)
        return msgspec.json.encode(document(picture))

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

    def _changes(self, since: str, scope: frozenset[str] | None) -> list[str]:
        """Return the messages for a page that has seen this."""
        epoch, _, rest = since.partition("-")
        version, _, seen = rest.partition("-")
        ours = epoch == self._epoch and seen == _digest(scope)
        known = ours and _VERSION.fullmatch(version) is not None
        changes = self._live.board.changes(int(version), scope) if known else None
        return self._live.board.afresh(scope) if changes is None else changes

    def _seen(self, scope: frozenset[str] | None, version: int | None = None) -> str:
        """Return what says which version of what a page shows."""
        number = self._live.board.version if version is None else version
        return f"{self._epoch}-{number}-{_digest(scope)}"

    def _beside(self, scope: frozenset[str] | None) -> str:
        """Return what the page says of no RayCluster, and of all together."""
        live = self._live
        clusters = live.board.clusters(scope)
        troubles = live.survey.troubles if scope is None else ()
        outage = (
            f"No news from the API server ({live.source.trouble}): showing the last known state."
        )
        return self._page(
            "beside",
            summary=summary_of(clusters, len(troubles))
            if live.source.synced
            else "Reading the cluster",
            waits=any(cluster.waits for cluster in clusters) or bool(troubles),
            trouble=outage if live.source.trouble else "",
            told=[told(each) for each in troubles],
            unread=live.unread,
        )

    def _options(self, sight: Sight, namespace: str) -> str:
        seen = {each.namespace for each in self._live.board.clusters(sight.namespaces)}
        every = sorted(seen | ({namespace} if namespace else set()))
        return self._page("options", namespaces=every, namespace=namespace)

    def _choice(self, sight: Sight, namespace: str) -> str:
        options = self._options(sight, namespace)
        return f'<select id="namespace" hx-swap-oob="innerMorph">{options}</select>'

    def _absent(self, title: str, *, part: bool) -> str | None:
        """Return what an open page shows of a thing that is gone since; there is no page of it."""
        if not part:
            return None
        return self._panel(title, part=True, lines=["It is not there, or you may not see it."])

    def _panel(self, title: str, *, part: bool, **values: Any) -> str:  # noqa: ANN401 - as below
        empty = {"labels": (), "told": (), "given": (), "heading": "", "due": False, "text": ()}
        html = self._page("panel", title=title, **(empty | values))
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


def _digest(scope: frozenset[str] | None) -> str:
    text = "*" if scope is None else "/".join(sorted(scope))
    return sha256(text.encode()).hexdigest()[:10]


def _remarked(account: Account | None) -> list[str]:
    return [each.text for each in account.remarks] if account else []


def _phase(pod: LivePod) -> str:
    return "Terminating" if pod.leaves else pod.status.phase or "Pending"


def _replacing(html: str) -> str:
    name, _, rest = html.lstrip().partition(" ")
    return f'{name} hx-swap-oob="outerMorph" {rest}'


def _framed(html: str, version: str) -> bytes:
    """Return a message of the stream. Whatever a tenant wrote, it stays one message."""
    lines = "".join(f"data: {line}\n" for line in _LINES.split(html))
    return (f"id: {version}\n{lines}\n" if version else f"{lines}\n").encode()
