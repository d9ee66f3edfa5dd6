"""Formats of texts: names and label values of Kubernetes, paths into an object, sanitized lines,
and markers with the uid of a pod.
"""

import json
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/validation/validation.go
DNS_LABEL_MAX: Final = 63
LABEL_VALUE_MAX: Final = 63
LABEL_VALUE_ADVICE: Final = (
    f"use up to {LABEL_VALUE_MAX} letters, digits, '-', '_' and '.'; letter or digit at both ends"
)
"""Advice for a text that is not a label value."""

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


# https://github.com/distribution/reference/blob/main/regexp.go
# `*+` takes no memory to try fewer repetitions of a long text.
_HOST: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_PATH: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*+"
_IMAGE: Final = re.compile(
    rf"(?P<name>(?:(?:{_HOST}(?:\.{_HOST})*+|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*+)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?:@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?"
)
_IMAGE_NAME_MAX: Final = 255
_COMPARED_MAX: Final = 64
"""Characters of a text that are compared with similar ones."""


def is_image(text: str) -> bool:
    """Return whether a text is a reference of an image, as kubelets parse it."""
    match = _IMAGE.fullmatch(text)
    return match is not None and len(match["name"]) <= _IMAGE_NAME_MAX


def is_dns_label(text: str) -> bool:
    """Return whether `text` is an RFC 1123 label, as `spec.hostname` and `spec.subdomain` must
    be.
    """
    return len(text) <= DNS_LABEL_MAX and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether `text` is an RFC 1123 subdomain, as most names of objects must be."""
    # The limit of the Kubernetes API.
    return len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None  # noqa: PLR2004


def is_label_value(text: str) -> bool:
    """Return whether `text` can be the value of a Kubernetes label."""
    return LABEL_VALUE.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Return whether `text` can be the key of a label, an annotation or a node label (`prefix/name`
    or `name`).
    """
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_label_value(name) and (not slash or is_dns_subdomain(prefix))


def escape(token: str) -> str:
    """Return a reference token of a JSON Pointer, with `~` and `/` escaped."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(*tokens: str | int) -> str:
    """Return the JSON Pointer of tokens: `pointer("spec", "containers", 0)` is
    `/spec/containers/0`.
    """
    return "".join(f"/{escape(token) if isinstance(token, str) else token}" for token in tokens)


def format_pointer(path: str) -> str:
    """Return a JSON Pointer in the notation of Kubernetes: `/spec/containers/0` is
    `spec.containers[0]`.
    """
    tokens = (token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:])
    return "".join(
        f"[{token}]" if token.isdigit() else f".{token}" for token in tokens
    ).removeprefix(".")


_BRACKETED: Final = frozenset("./")
"""Characters of keys that stand in brackets."""


def path_of(tokens: Iterable[str | int]) -> str:
    """Return a path in the notation of Kubernetes, such as `spec.containers[0]` and
    `metadata.labels[ray.io/group]`.
    """
    path_parts = (
        f"[{token}]" if isinstance(token, int) or not _BRACKETED.isdisjoint(token) else f".{token}"
        for token in tokens
    )
    return "".join(path_parts).removeprefix(".")


_COMMAND: Final = re.compile(r"((?:\s|\x1b\[[0-9;]*m)*)(::|##\[)")
"""The beginning of a line that a workflow of GitHub runs as a command, after spaces and colours."""


def one_line(text: str) -> str:
    """Return a text with a space for each line break and each non-printable character, such as the
    C0 and C1 controls, ESC, DEL and bidi overrides; and no workflow command.
    """
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return no_command(text) if ":" in text or "#" in text else text


def no_command(line: str) -> str:
    """Return a line of output with a space in what would make it a workflow command."""
    match = _COMMAND.match(line)
    return f"{match[1]}{match[2][0]} {line[match.end() - 1 :]}" if match else line


def many_lines(text: str) -> str:
    """Return a text of several lines, each sanitized by `one_line`."""
    return "\n".join(map(one_line, text.split("\n")))


def json_text(value: object, indent: int | None = 2) -> str:
    """Return JSON with `escape_json` and a line end."""
    return escape_json(json.dumps(value, indent=indent)) + "\n"


_UNPRINTABLE: Final = re.compile(r"[^\n -~]")


def escape_json(text: str) -> str:
    """Return JSON in ASCII without control characters. Readers of JSON get the same texts, and a
    terminal that shows it runs none of them.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNPRINTABLE.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f")


def nearest(text: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the name that is most similar to a text, or an empty string if none has the share
    `cutoff` of characters in common. Only the beginning of a long text is compared.
    """
    return next(iter(get_close_matches(text[:_COMPARED_MAX], tuple(names), cutoff=cutoff)), "")


def list_choices(options: Sequence[str]) -> str:
    """Return options as `a, b or c`."""
    *most, last = options
    return f"{', '.join(most)} or {last}" if most else last


def shorten(text: str, most: int = 63) -> str:
    """Return a text of at most `most` characters: the middle of a longer one is left out."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[-end:]}"


def explain_non_string(value: object) -> str:
    """Return what to write for a number or boolean in place of a string. A decimal number and a
    boolean have other forms in YAML, such as `2.10` and `y`, so their own form is not the text.
    """
    literal = shorten(str(value).lower() if isinstance(value, bool) else str(value))
    if type(value) is int:
        return f'{literal} is not a string: quote it, as in "{literal}"'
    kind = "boolean" if isinstance(value, bool) else "number"
    return f"{literal} is not a string: quote the value, which YAML reads as a {kind}"


def mark(text: str, uid: str) -> str:
    """Return the marker of a text for the pod of a uid; a valid label value if the text has at most
    26 characters.
    """
    return f"{text}.{uid}"


def read_mark(text: str, uid: str) -> str:
    """Return the text of a marker for the pod of a uid, or an empty text if the marker is of
    another pod.
    """
    end = f".{uid}"
    return text.removesuffix(end) if uid and text.endswith(end) else ""


_LINE_READ_MAX: Final = 4096
"""Characters of a text of which a line is made: a message has up to 1.5 MiB."""


def in_line(text: str, longest: int = 300) -> str:
    """Return a text of another program in one line, cut to the length of a message."""
    return " ".join(text[:_LINE_READ_MAX].split())[:longest]
