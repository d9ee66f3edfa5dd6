"""What may be shown of a text that anybody wrote: a terminal obeys control characters, and bidi
overrides let a line read as another.
"""


def one_line(text: str) -> str:
    """Return a text with a space for each character that ends a line or is not shown: the C0 and C1
    controls, ESC and DEL among them, what orders text from right to left, and the like.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def many_lines(text: str) -> str:
    """Return a text of several lines, each of which is cleaned like that."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))
