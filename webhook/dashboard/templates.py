"""Jinja2 templates, in which every value is escaped and missing values are errors."""

from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from webhook.dashboard.view import Section


class HtmlDrawer:
    """Renders views with the templates of this package."""

    def __init__(self) -> None:
        environment = Environment(
            loader=PackageLoader("webhook.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.assets = assets()
        """The static files by name: content and type."""
        digest = sha256(b"".join(body for body, _ in self.assets.values())).hexdigest()[:10]
        environment.globals["asset"] = lambda name: f"/static/{name}?v={digest}"
        self._environment = environment
        self._section = environment.get_template("section.html")

    def section(self, section: Section) -> str:
        """Return the HTML of a RayCluster."""
        return self._section.render(section=section)

    def page(self, name: str, **values: Any) -> str:  # noqa: ANN401 - what the template shows
        """Return a rendered template."""
        return self._environment.get_template(f"{name}.html").render(values)


_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


_BUNDLE: Final = ("htmx.min.js", "hx-sse.min.js", "page.js")
"""Scripts in one file: htmx starts at the end of its script, when the others have to be loaded."""


def assets() -> dict[str, tuple[bytes, str]]:
    """Return the static files by name: content and type."""
    folder = files("webhook.dashboard") / "static"
    found = {}
    for file in folder.iterdir():
        kind = _KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            found[file.name] = file.read_bytes(), kind
    parts = [found.pop(name)[0] for name in _BUNDLE]
    return {**found, "bundle.js": (b";\n".join(parts), _KINDS[".js"])}
