"""Ray objects: validation rules check RayClusters, RayJobs, RayServices and RayCronJobs; every
other object is allowed.
"""

from typing import Any, Final

from webhook.admission.codec import WARNING_MAX
from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.names import is_ray
from webhook.api.review import ALLOWED, INVALID, AdmissionRequest, Answer, BadReview, Cause
from webhook.groups.group_config import is_ignored
from webhook.validation.field import shorten_path
from webhook.validation.finding import DENY, Finding
from webhook.validation.rule_settings import DEFAULTS, RuleSettings
from webhook.validation.ruleset import check, check_owned, check_update

CAUSES_MAX: Final = 300
"""Causes of a response; only a contrived spec has more."""

_OWNERS: Final = (names.RAYJOB_KIND, names.RAYSERVICE_KIND, names.RAYCRONJOB_KIND)
"""Owners for which KubeRay creates Ray objects: RayClusters, or RayJobs for a RayCronJob."""

LINE_MAX: Final = 1000
"""Characters of a path or a message; only names set by users can make them longer."""


PATH_LEAST: Final = 24
"""The minimum characters of a path in a warning; a shorter path is omitted."""

WORD_LEAST: Final = 24
"""The minimum characters of a name in a warning whose message is too long."""


class RayHandler:
    """Answers reviews of Ray objects. `settings` are replaced when the configuration changes."""

    def __init__(self, settings: RuleSettings = DEFAULTS) -> None:
        self.settings = settings

    def __call__(self, request: AdmissionRequest[Any]) -> Answer:
        """Return the response. Raises BadReview."""
        kind = request.kind
        if (
            request.sub_resource
            or request.operation not in ("CREATE", "UPDATE")
            or not is_ray(kind.group, kind.version, kind.kind)
        ):
            return ALLOWED
        if not isinstance(request.object, dict):
            msg = f"request.object is missing: a {request.operation} carries the {kind.kind}"
            raise BadReview(msg)
        settings = self.settings  # read once: another thread may replace them
        if settings.ignoring and _has_ignore_label(request.object):
            return ALLOWED
        return render(_findings(request, settings))


def _findings(request: AdmissionRequest[Any], settings: RuleSettings) -> list[Finding]:
    kind, value = request.kind.kind, request.object
    joined = settings.ignoring and _has_ignore_label(request.old_object)
    if (
        request.operation != "CREATE" and not joined
    ):  # the object was not checked while it was ignored
        return check_update(kind, request.old_object, value, settings)
    # The findings belong to the RayJob or RayService, where they were reported to its user.
    if request.user_info.username in settings.operators and _has_ray_owner(value):
        return check_owned(kind, value, settings)
    return check(kind, value, settings)


def render(findings: list[Finding]) -> Answer:
    """Return the response with all findings: denials as causes, the others as warnings."""
    causes = [_cause(finding) for finding in findings if finding.level == DENY]
    if len(causes) > CAUSES_MAX:
        rest = len(causes) - CAUSES_MAX
        causes[CAUSES_MAX:] = [Cause(INVALID, f"and {rest} more problems", "")]
    warnings = tuple(_warning(finding) for finding in findings if finding.level != DENY)
    rules = tuple(dict.fromkeys(finding.rule for finding in findings if finding.level == DENY))
    warned = tuple(dict.fromkeys(finding.rule for finding in findings if finding.level != DENY))
    return Answer(tuple(causes), None, warnings=warnings, rules=rules, warned=warned)


def _has_ray_owner(value: Any) -> bool:  # noqa: ANN401 - an object that may be garbage
    """Return whether another Ray object controls an object. Users can set that field."""
    metadata = value.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return any(
        isinstance(owner, dict)
        and owner.get("controller") is True
        and owner.get("kind") in _OWNERS
        and str(owner.get("apiVersion")).partition("/")[0] == names.RAY_GROUP
        for owner in (owners if isinstance(owners, list) else ())
    )


def _has_ignore_label(value: Any) -> bool:  # noqa: ANN401 - an object that may be garbage
    metadata = value.get("metadata") if isinstance(value, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and is_ignored(labels)


def _cause(finding: Finding) -> Cause:
    message = f"{finding.text[:LINE_MAX]} [{finding.rule}]"
    return Cause(finding.reason, message, shorten_path(finding.path, LINE_MAX))


def _warning(finding: Finding) -> str:
    """Return a line that fits into a warning: first the path is shortened in the middle, then the
    part of the object, then names in the message, then its end; the rule is kept.
    """
    path, rule = finding.path, f" [{finding.rule}]"
    for message in (finding.text, finding.named, finding.message):
        limit = WARNING_MAX - len(rule) - len(message)
        if limit - len(": ") >= min(len(path), PATH_LEAST):
            return f"{shorten_path(path, limit - len(': '))}: {message}{rule}"
        if limit >= 0:
            return f"{message}{rule}"
    return f"{_shorten_names(finding.message[:LINE_MAX], WARNING_MAX - len(rule))}{rule}"


def _shorten_names(message: str, limit: int) -> str:
    """Return a message in at most `limit` characters. The advice is at its end, so its longest
    words, which are names that users chose, are shortened in the middle first.
    """
    while len(message) > limit:
        word = max(message.split(), key=len, default="")
        size = max(WORD_LEAST, len(word) - (len(message) - limit))
        if size >= len(word):
            return f"{message[: limit - 1]}…"
        message = message.replace(word, shorten(word, size))
    return message
