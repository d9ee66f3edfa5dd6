"""The FastAPI application of the dashboard: page, parts, stream of changes, and JSON."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webhook import __version__
from webhook.dashboard.page import DashboardSite

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names for a loopback listener in a browser on the same machine."""

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
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class _Guard:
    """Middleware that rejects requests with another host or from pages of other sites, and adds
    headers to all responses.

    A page of another site can make a browser send requests to a loopback listener under a DNS name
    of that site, but not with another `Host` or `Origin`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                # Pages contain values of variables of tenants, which must not stay on a disk.
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers, answer = Headers(scope=scope), self._app
        host = headers.get("host", "")
        origin = headers.get("origin")
        if _hostname(host) not in _LOOPBACK:
            refusal = f"{_hostname(host) or 'no host'} is not served: open this as localhost"
            answer = PlainTextResponse(refusal, 421)
        elif origin is not None and origin.partition("://")[2] != host:
            answer = PlainTextResponse("pages of other sites are not answered", 403)
        await answer(scope, receive, send_with_headers)


def site_application(site: DashboardSite) -> FastAPI:
    """Return the application."""
    app = FastAPI(
        title="ray-webhook dashboard",
        version=__version__,
        description="What is running in a cluster, what is missing, and what to do.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED_BYTES, compresslevel=4)
    app.add_middleware(_Guard)

    def is_signed_in(request: Request) -> bool:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = bearer.strip() if kind.lower() == "bearer" else ""
        return site.session.is_of(request.cookies.get(_cookie(request), ""), token)

    async def require_session(request: Request) -> None:
        if not is_signed_in(request):
            raise HTTPException(401, "sign in first", {"www-authenticate": "Bearer"})

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        if not is_signed_in(request):
            return RedirectResponse("/enter", 303)
        return HTMLResponse(site.listing.page(request.query_params))

    _add_entrance(app, site)
    private = APIRouter(dependencies=[Depends(require_session)])
    _add_pages(private, site)
    _add_data(private, site, app)
    app.include_router(private)
    return app


def _add_entrance(app: FastAPI, site: DashboardSite) -> None:
    @app.get("/enter", include_in_schema=False)
    async def enter(request: Request, token: str = "") -> Response:
        if not token:
            return HTMLResponse(site.sign_in(""))
        value = site.session.enter(token)
        if value is None:
            return HTMLResponse(site.sign_in("This address is not that of this process."), 401)
        # The token must not stay in the address bar or the history.
        answer = RedirectResponse("/", 303)
        answer.set_cookie(_cookie(request), value, httponly=True, samesite="strict")
        return answer

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        asset = site.drawer.assets.get(name)
        if asset is None:
            raise HTTPException(404)
        return Response(asset[0], media_type=asset[1], headers={"cache-control": _FOR_EVER})


def _add_pages(private: APIRouter, site: DashboardSite) -> None:
    @private.get("/events", include_in_schema=False)
    async def events(request: Request, since: str = "") -> Response:
        if not site.accepts_stream:
            raise HTTPException(429, "too many pages are open: close some", {"retry-after": "60"})
        last = request.headers.get("last-event-id", since)
        stream = site.events(request.query_params, last)
        return StreamingResponse(stream, media_type="text/event-stream")

    @private.get("/pod", include_in_schema=False)
    async def pod(request: Request, namespace: str, name: str) -> Response:
        return _build_html_response(site.panels.pod(namespace, name, part=_part(request)))

    @private.get("/host", include_in_schema=False)
    async def host(request: Request) -> Response:
        return _build_html_response(
            site.panels.host(dict(request.query_params), part=_part(request))
        )

    @private.get("/diagnosis", include_in_schema=False)
    async def diagnosis(request: Request, name: Annotated[str, Query(alias="id")]) -> Response:
        return _build_html_response(site.panels.diagnosis(name, part=_part(request)))


def _add_data(private: APIRouter, site: DashboardSite, app: FastAPI) -> None:
    @private.get("/api/v1/status", responses=_json("StatusReport"), response_class=Response)
    async def status(namespace: str = "") -> Response:
        """Return the RayClusters of a namespace, or of all, and their problems."""
        return StreamingResponse(site.status_json(namespace), media_type="application/json")

    @private.get("/api/v1/pods/{namespace}/{name}", responses=_json("Pod"), response_class=Response)
    async def pod_json(namespace: str, name: str) -> Response:
        """Return the properties of a pod, its values with reasons, and whether it has them."""
        details_json = site.panels.pod_json(namespace, name)
        if details_json is None:
            raise HTTPException(404, "there is no such pod of Ray")
        return Response(details_json, media_type="application/json")

    @private.get("/openapi.json", include_in_schema=False)
    async def description() -> dict[str, Any]:
        """Return the OpenAPI document, with schemas that pydantic does not create."""
        document = app.openapi()
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(site.schemas)
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return document | {"security": [{"bearer": []}]}


def _json(schema: str) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {200: {"content": content}, 401: {"description": "not signed in"}}


def _build_html_response(html: str | None) -> Response:
    if html is None:
        raise HTTPException(404, "there is no such thing")
    return HTMLResponse(html)


def _part(request: Request) -> bool:
    """Return whether a script of the page requests a part of it."""
    return request.headers.get("hx-request") == "true"


def _cookie(request: Request) -> str:
    """Return the name of the cookie, with the port of the request. Cookies are shared by all ports
    of a host, and two dashboards on one machine must not overwrite each other's.
    """
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"ray-webhook-{port}" if port.isdecimal() and port.isascii() else "ray-webhook"


def _hostname(host: str) -> str:
    """Return the name in a `Host` header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
