"""The page of metrics has every metric that the processes declare."""

from tests.telemetry.metrics_page import PAGE, page
from webhook.telemetry.metrics import Metrics


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.telemetry.metrics_page`"


def test_what_a_process_exposes_is_on_the_page() -> None:
    text, _ = Metrics().exposition()
    exposed = {line.split()[2] for line in text.decode().splitlines() if line.startswith("# TYPE")}
    ours = {name for name in exposed if name.startswith("ray_webhook_")}
    serve = page().partition("## serve")[2].partition("## controller")[0]
    assert ours
    assert [name for name in ours if f"`{name}`" not in serve] == []
