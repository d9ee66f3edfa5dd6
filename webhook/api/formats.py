"""Formats that the API server requires of names and label values, as predicates and limits."""

import re
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
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_QUALIFIED_NAME: Final = re.compile(
    r"(?:(?P<prefix>[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)/)?"
    r"(?P<name>[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)",
)


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
    return len(text) <= LABEL_VALUE_MAX and _LABEL_VALUE.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Return whether `text` can be the key of a label, an annotation or a node label (`prefix/name`
    or `name`).
    """
    match = _QUALIFIED_NAME.fullmatch(text)
    # The limits of the Kubernetes API.
    return match is not None and len(match["prefix"] or "") <= 253 and len(match["name"]) <= 63  # noqa: PLR2004
