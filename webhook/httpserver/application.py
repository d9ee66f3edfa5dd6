"""The FastAPI application of probes and metrics over plain HTTP, and the readiness of a process."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from webhook.api.formats import one_line

Condition = Callable[[], bool]


@dataclass
class Readiness:
    """Open while every named condition holds; ready if, in addition, the process is not
    draining.
    """

    conditions: dict[str, Condition] = field(default_factory=dict)
    details: dict[str, Callable[[], str]] = field(default_factory=dict)
    """Details of the condition of the same name, or additional lines."""
    draining: bool = False

    @property
    def ready(self) -> bool:
        """Return whether the process should receive requests; false while draining, although
        requests are still answered.
        """
        return not self.draining and self.closed() is None

    async def drain(self) -> None:
        """Report that the process is draining."""
        self.draining = True

    def lines(self, *, verbose: bool) -> list[str]:
        """Return a line for each condition, `[+]` if it holds and `[-]` if it does not."""
        details = self.details.items() if verbose else ()
        texts = {name: one_line(detail()) for name, detail in details}
        report = {name: condition() for name, condition in self.conditions.items()}
        report["not draining"] = not self.draining
        return [
            f"[{'+' if holds else '-'}] {name}{': ' if name in texts else ''}{texts.get(name, '')}"
            for name, holds in report.items()
        ] + [f"{name}: {detail}" for name, detail in texts.items() if name not in report]

    def closed(self) -> str | None:
        """Return why no review can be answered, or None if reviews are answered, also while
        draining.
        """
        for name, condition in self.conditions.items():
            if not condition():
                return f"not ready: waiting for {name}"
        return None


def admin_application(gate: Readiness, metrics: Callable[[], tuple[bytes, str]]) -> FastAPI:
    """Return the application of the plain HTTP port. `metrics` returns the exposition and its
    content type.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/livez")
    async def livez() -> Response:
        return PlainTextResponse("ok")

    @app.get("/readyz")
    async def readyz(request: Request) -> Response:
        ready = gate.ready
        lines = gate.lines(verbose="verbose" in request.query_params)
        return PlainTextResponse("\n".join(lines) + "\n", 200 if ready else 503)

    @app.get("/metrics")
    async def exposition() -> Response:
        body, kind = metrics()
        return Response(body, media_type=kind)

    return app
