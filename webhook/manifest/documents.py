"""The documents in the text of a file: YAML documents, or values of concatenated JSON."""

import json
import re
from collections.abc import Iterator
from typing import Final

import yaml

from webhook.manifest.yaml_values import ManifestError, check_nesting

_SURROGATES: Final = re.compile(
    r"(?P<before>(?<!\\)(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})"
    r"(?:\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))?"
)


def split(name: str, data: bytes) -> Iterator[tuple[int, str] | ManifestError]:
    """Yield the text of each document as YAML, with the number of lines before it, and an error in
    place of a document that is not text.
    """
    for before, chunk in _chunks(data):
        try:
            document_text = _decode_utf8(name, chunk, before)
        except ManifestError as problem:
            yield problem
            continue
        if _JSON.match(document_text):
            yield from ((before + line, value) for line, value in _json_values(document_text))
        else:
            yield before, document_text


_MARKER: Final = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
"""The beginning or the end of a document. YAML does not allow these lines within a value."""


def _chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the text of each document, with the number of lines before it."""
    ends = []
    for marker in _MARKER.finditer(data):
        after = data.find(b"\n", marker.end()) + 1 or len(data)
        ends.append(marker.start() if marker[0] == b"---" else after)
    begin = before = 0
    for end in (*ends, len(data)):
        chunk = data[begin:end]
        if end < len(data) and all(map(_is_preamble, chunk.splitlines())):
            continue
        yield before, chunk
        begin, before = end, before + _count_lines(chunk)


def _is_preamble(line: bytes) -> bool:
    """Return whether a line is empty, a comment, or a directive of the next document."""
    return line[:1] == b"%" or line.strip()[:1] in (b"", b"#")


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def text_of(name: str, data: bytes) -> str:
    """Return the YAML in a file, which may be written as JSON. Raises ManifestError."""
    file_text = _decode_utf8(name, data, 0)
    return _json_as_yaml(file_text) if _JSON.match(file_text) else file_text


def _decode_utf8(name: str, data: bytes, before: int) -> str:
    try:
        # Editors on Windows write a byte order mark.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = before + data[: error.start].count(b"\n") + 1
        raise ManifestError(name, line, "not a text file in UTF-8: save it in UTF-8") from None


_JSON: Final = re.compile(r"(?:---)?\s*[{\[]")
_BLANK: Final = re.compile(r"(?:\A---)?\s*")
_NEXT_OBJECT: Final = re.compile(r"^\{", re.MULTILINE)


def _json_values(text: str) -> Iterator[tuple[int, str]]:
    """Yield the values of concatenated JSON as YAML, with the number of lines before each.

    After a value that is not JSON, the next one begins with a `{` in the first column, unless all
    of the text is one document of YAML.
    """
    decoder = json.JSONDecoder(strict=False)
    begin = line = 0
    while (start := _end_of_blank(text, begin)) < len(text):
        try:
            end = decoder.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            following = _NEXT_OBJECT.search(text, start + 1)
            end = following.start() if following and not _is_yaml(text[start:]) else len(text)
        yield line + text.count("\n", begin, start), _json_as_yaml(text[start:end])
        line += text.count("\n", begin, end)
        begin = end


def _end_of_blank(text: str, begin: int) -> int:
    match = _BLANK.match(text, begin)
    return match.end() if match else begin


def _is_yaml(text: str) -> bool:
    try:
        check_nesting("", _json_as_yaml(text))
    except (yaml.YAMLError, ManifestError):
        return False
    return True


def _json_as_yaml(text: str) -> str:
    """Return JSON that YAML can read: without tabs between tokens, without surrogates."""
    return _SURROGATES.sub(_join_surrogates, text.replace("\t", " "))


def _join_surrogates(match: re.Match[str]) -> str:
    low = int(match["low"], 16) - 0xDC00 if match["low"] else None
    high = int(match["high"], 16) - 0xD800
    character = 0xFFFD if low is None else 0x10000 + (high << 10) + low
    return f"{match['before']}\\U{character:08x}"
