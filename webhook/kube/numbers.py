"""Whole numbers as people write them in annotations."""


def read_number(text: str, most: int) -> int | None:
    """Return the number that a text says, or None when it says none: decimal, without sign or
    leading zeros, at most `most`.
    """
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > len(str(most))
        or (text[0] == "0" and text != "0")
    ):
        return None
    number = int(text)
    return number if number <= most else None
