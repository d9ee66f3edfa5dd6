"""The page of all texts is up to date."""

from tests.texts import PAGE, page


def test_the_page_has_all_texts() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.texts`, and read what is new"
