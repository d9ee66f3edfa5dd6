"""Sanitized output of untrusted text: terminals obey control characters, and bidi overrides reorder
a line.
"""


def one_line(text: str) -> str:
    """Return a text with a space for each line break and each non-printable character, such as the
    C0 and C1 controls, ESC, DEL and bidi overrides.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def many_lines(text: str) -> str:
    """Return a text of several lines, each sanitized by `one_line`."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))


def shortened(text: str, most: int = 63) -> str:
    """Return a text of at most `most` characters: the middle of a longer one is left out."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[-end:]}"
