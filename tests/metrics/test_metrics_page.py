"""The page of metrics and the table contain every metric of the processes."""

from tests.metrics.metrics_page import (
    PAGE,
    TABLE,
    exposed,
    page,
)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.metrics.metrics_page`"


def test_every_metric_of_the_table_is_exposed_by_a_process() -> None:
    read = {row for rows in exposed().values() for row in rows}
    assert [row.name for row in TABLE if row not in read] == []
