"""The page of metrics and the table contain every metric of the processes."""

from tests.pages.metrics import TABLE, exposed


def test_every_metric_of_the_table_is_exposed_by_a_process() -> None:
    read = {row for rows in exposed().values() for row in rows}
    assert [row.name for row in TABLE if row not in read] == []
