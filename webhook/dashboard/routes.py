"""The FastAPI application of the dashboard: page, parts, stream of changes, and JSON."""

from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webhook import __version__
from webhook.dashboard.page import DashboardSite
from webhook.dashboard.rights import NotNowError, UserScope

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names for a loopback listener in a browser on the same machine."""

_FORM_BYTES: Final = 64 * 1024
_COMPRESSED_BYTES: Final = 1024
"""The minimum size of compressed responses; the stream of changes is never compressed."""
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without it, browsers send no Origin with own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class _Guard:
    """Middleware that rejects requests with another host and forms of other sites, and adds headers
    to all responses.

    A page of another site can make a browser send requests to a loopback listener under a DNS name
    of that site, but not with another `Host` or `Origin`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers, answer = Headers(scope=scope), self._app
        host = _hostname(headers.get("host", ""))
        if host not in self._hosts:
            text = (
                f"{host or 'no host'} is not served: open this as localhost, or set dashboard.hosts"
            )
            answer = PlainTextResponse(text, 421)
        elif scope["method"] == "POST" and not _own(headers):
            answer = PlainTextResponse("forms of other sites are not accepted", 403)
        await answer(scope, receive, guarded)


def site_application(site: DashboardSite, hosts: Collection[str], cookie: str) -> FastAPI:
    """Return the application. `cookie` names the session; `hosts` are accepted host names."""
    app = FastAPI(
        title="ray-webhook dashboard",
        version=__version__,
        description="What is running in a cluster, what is missing, and what to do.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED_BYTES, compresslevel=4)
    app.add_middleware(_Guard, hosts=hosts)
    _add_sessions(app, site, cookie)

    async def read_scope(request: Request) -> UserScope | None:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = bearer.strip() if kind.lower() == "bearer" else ""
        return await site.access.sight(request.cookies.get(_of_port(cookie, request), ""), token)

    async def viewer(request: Request) -> UserScope:
        found = await read_scope(request)
        if found is None:
            raise HTTPException(401, "sign in first", {"www-authenticate": "Bearer"})
        return found

    _add_pages(app, site, read_scope, viewer)
    _add_data(app, site, viewer)

    @app.exception_handler(NotNowError)
    async def not_now(_request: Request, error: NotNowError) -> Response:
        return PlainTextResponse(f"{error}\n", 503, {"retry-after": "2"})

    return app


def _add_pages(
    app: FastAPI,
    site: DashboardSite,
    read_scope: Callable[[Request], Awaitable[UserScope | None]],
    viewer: Callable[[Request], Awaitable[UserScope]],
) -> None:
    Viewer = Annotated[UserScope, Depends(viewer)]  # noqa: N806 - a type

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        sight = await read_scope(request)
        if sight is None:
            return RedirectResponse("/enter", 303)
        return HTMLResponse(site.listing.page(sight, request.query_params))

    @app.get("/events", include_in_schema=False)
    async def events(request: Request, sight: Viewer, since: str = "") -> Response:
        if not site.streams(sight):
            raise HTTPException(429, "too many pages are open: close some", {"retry-after": "60"})
        seen = request.headers.get("last-event-id", since)
        stream = site.events(lambda: read_scope(request), request.query_params, seen)
        return StreamingResponse(stream, media_type="text/event-stream")

    @app.get("/pod", include_in_schema=False)
    async def pod(request: Request, sight: Viewer, namespace: str, name: str) -> Response:
        return _found(site.panels.pod(sight, namespace, name, part=_part(request)))

    @app.get("/host", include_in_schema=False)
    async def host(request: Request, sight: Viewer) -> Response:
        return _found(site.panels.host(sight, dict(request.query_params), part=_part(request)))

    @app.get("/diagnosis", include_in_schema=False)
    async def diagnosis(
        request: Request, _sight: Viewer, name: Annotated[str, Query(alias="id")]
    ) -> Response:
        return _found(site.panels.diagnosis(name, part=_part(request)))

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        found = site.drawer.assets.get(name)
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1], headers={"cache-control": _FOR_EVER})


def _add_data(
    app: FastAPI, site: DashboardSite, viewer: Callable[[Request], Awaitable[UserScope]]
) -> None:
    Viewer = Annotated[UserScope, Depends(viewer)]  # noqa: N806 - a type

    @app.get("/api/v1/status", responses=_json("Status"), response_class=Response)
    async def status(sight: Viewer, namespace: str = "") -> Response:
        """Return the RayClusters of a namespace, or of all that you can see, and their problems."""
        return StreamingResponse(site.status_json(sight, namespace), media_type="application/json")

    @app.get("/api/v1/pods/{namespace}/{name}", responses=_json("Pod"), response_class=Response)
    async def pod_json(sight: Viewer, namespace: str, name: str) -> Response:
        """Return the facts of a pod, its values with reasons, and whether it still has them."""
        found = site.panels.pod_json(sight, namespace, name)
        if found is None:
            raise HTTPException(404, "there is no such pod of Ray that you may see")
        return Response(found, media_type="application/json")

    @app.get("/openapi.json", include_in_schema=False)
    async def description(_sight: Viewer) -> dict[str, Any]:
        """Return the OpenAPI document, with schemas that pydantic does not create."""
        document = app.openapi()
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(site.schemas)
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return document | {"security": [{"bearer": []}]}


def _add_sessions(app: FastAPI, site: DashboardSite, cookie: str) -> None:
    @app.get("/enter", include_in_schema=False)
    async def enter(request: Request, token: str = "") -> Response:
        if token and not site.access.tokens:
            return await signed_in(request, token)
        return HTMLResponse(site.sign_in(""))

    @app.post("/enter", include_in_schema=False)
    async def enter_form(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _FORM_BYTES:
                return PlainTextResponse("the form is too large", 413)
        fields = parse_qs(body.decode(errors="replace"))
        return await signed_in(request, fields.get("token", [""])[0].strip())

    async def signed_in(request: Request, token: str) -> Response:
        session = await site.access.enter(token)
        if session is None:
            return HTMLResponse(site.sign_in("This token is not accepted."), 401)
        answer = RedirectResponse("/", 303)
        # A browser sends a secure cookie to loopback only over TLS, and loopback traffic stays on
        # the host
        secure = _hostname(request.headers.get("host", "")) not in LOOPBACK
        name = _of_port(cookie, request)
        answer.set_cookie(name, session, httponly=True, samesite="strict", secure=secure)
        return answer

    @app.post("/leave", include_in_schema=False)
    async def leave(request: Request) -> Response:
        name = _of_port(cookie, request)
        site.access.leave(request.cookies.get(name, ""))
        answer = RedirectResponse("/enter", 303)
        answer.delete_cookie(name)
        return answer


def _json(schema: str) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {200: {"content": content}, 401: {"description": "not signed in"}}


def _found(html: str | None) -> Response:
    if html is None:
        raise HTTPException(404, "there is no such thing, or you may not see it")
    return HTMLResponse(html)


def _part(request: Request) -> bool:
    """Return whether a script of the page requests a part of it."""
    return request.headers.get("hx-request") == "true"


def _own(headers: Headers) -> bool:
    """Return whether a form is from this site, or was not sent by a browser page."""
    site = headers.get("sec-fetch-site")
    if site is not None:  # also valid if a proxy changes the Host header
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _of_port(cookie: str, request: Request) -> str:
    """Return the name of a cookie with the port of the request. Cookies are shared by all ports of
    a host, and two dashboards on one machine must not overwrite each other's.
    """
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{cookie}-{port}" if port.isdecimal() and port.isascii() else cookie


def _hostname(host: str) -> str:
    """Return the name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
