"""All rules, in order, and the functions that apply them to an object or an update."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar

from webhook.api import names
from webhook.api.review import TYPE_INVALID
from webhook.manifest.yaml_values import DuplicateKey
from webhook.validation.change import only_queued, only_scaled, read_update, replicas_of
from webhook.validation.crd import NEWEST
from webhook.validation.decoding import count_fits
from webhook.validation.field import at
from webhook.validation.finding import DENY, OFF, WARN, Finding, KubeRay
from webhook.validation.quotas import Growth
from webhook.validation.ray_object import RayObject, read_ray_object
from webhook.validation.rule_settings import DEFAULTS, GATES, RuleSettings
from webhook.validation.rules import (
    CLUSTER_RULES,
    CRON_RULES,
    DECODING_RULES,
    FILE_RULES,
    JOB_RULES,
    OBJECT_RULES,
    QUOTA_RULES,
    RULES,
    SCALE_RULES,
    SERVICE_RULES,
    UPDATE_RULES,
    Rule,
)
from webhook.validation.schema import meant, pruned
from webhook.validation.updates import starts_second

T = TypeVar("T")

_STOPPING: Final = frozenset(rule.id for rule in DECODING_RULES)
"""The rules of values that stop KubeRay for all objects."""

_ALL: Final = "; `ray-webhook explain rule` lists all"

Find = Callable[[RayObject, RuleSettings], Iterable[Finding]]

MESSAGE_MAX: Final = 400
"""Maximum characters of a message; only long user-chosen names make messages longer."""

FAULTS_MAX: Final = 200
"""Maximum faults of one rule; it bounds the time that a hostile object can take."""


def check(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings of all rules in an object of one of the four Ray kinds: denials first,
    then sorted by field.
    """
    ray_object = read_ray_object(kind, value, settings)
    found = _findings(ray_object, settings)
    return _decided(value, chain(found, _run(QUOTA_RULES, Growth(None, ray_object), settings)))


def check_file(
    kind: str,
    value: object,
    settings: RuleSettings = DEFAULTS,
    duplicates: Sequence[DuplicateKey] = (),
) -> list[Finding]:
    """Return the findings in an object that no API server has processed yet. `duplicates` are the
    keys that its file has more than once.

    The CRD is checked too, and the other rules read the object as the API server would store it. A
    field with a denial of another rule has no second finding of the CRD, unless its value is of
    another type, which the other rules take for an absent one: a finding that depends on such a
    value, or on a misspelt field, is left out.
    """
    found = check(kind, pruned(kind, value, settings.kuberay), settings)
    for version in meant(kind, value, settings):
        others = check(kind, pruned(kind, version, settings.kuberay), settings)
        same = {(other.rule, other.field.tokens, other.message) for other in others}
        found = [each for each in found if (each.rule, each.field.tokens, each.message) in same]
    said = {finding.field.tokens for finding in found if finding.level == DENY}
    ray_object = read_ray_object(kind, value, settings)
    ray_object.duplicates = duplicates
    own = _run(FILE_RULES, ray_object, settings)
    kept = (each for each in own if each.reason == TYPE_INVALID or each.field.tokens not in said)
    return _ordered([*found, *kept])


def check_owned(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings in an object that KubeRay creates for a reviewed object.

    A denial would prevent its owner from recovering or upgrading, so only values that stop KubeRay
    are denials.
    """
    return _ordered(
        map(_only_stopping, _findings(read_ray_object(kind, value, settings), settings))
    )


def check_update(
    kind: str, old: object, new: object, settings: RuleSettings = DEFAULTS
) -> list[Finding]:
    """Return the findings in an update. Only findings that the old object did not have are denials.

    An object that is being deleted, and an update that only scales or changes finalizers, or by
    which Kueue admits or stops the object, is only checked for values that stop KubeRay. Such a
    value stops KubeRay for all users as long as a finalizer keeps the object, so it is denied here
    too; a value that the old object had is a warning, so that a finalizer can always be removed.
    Problems that a scaling leaves behind are warnings.
    """
    scaled = only_scaled(kind, old, new)
    moved = scaled or only_queued(kind, old, new)
    counts = replicas_of(kind, new) if moved else []
    if moved and all(map(count_fits, counts)):
        pairs = [*zip(replicas_of(kind, old), counts, strict=False)] if scaled else []
        fewer = any(_fewer(*pair) for pair in pairs)
        more = settings.namespaces is not None and any(_fewer(*reversed(pair)) for pair in pairs)
        found = _left_behind(kind, old, new, settings) if fewer else []
        return _ordered([*found, *_quotas(kind, old, new, settings)]) if more else found
    before, after = (read_ray_object(kind, each, settings) for each in (old, new))
    if moved or being_deleted(new):
        return _new(before, after, settings, partial(_run, DECODING_RULES))
    found = _new(before, after, settings, _findings)
    update = read_update(before, after)
    if update is not None:
        found += _run(UPDATE_RULES, update, settings)
    found += _run(QUOTA_RULES, Growth(before, after, starts_second(update)), settings)
    return _decided(new, found)


def _decided(value: object, found: Iterable[Finding]) -> list[Finding]:
    """Return the findings of an object in order. For an object that MultiKueue runs in another
    cluster, only values that stop KubeRay are denials, other findings are warnings. A finding that
    a value cannot be decoded is left out if another denial has the same field.
    """
    found = list(found)
    if _runs_elsewhere(value):
        found = list(map(_only_stopping, found))
    if any(each.rule in _STOPPING for each in found):
        denied = [each for each in found if each.level == DENY and each.rule not in _STOPPING]
        said = {each.field.tokens for each in denied}
        found = [
            each for each in found if each.rule not in _STOPPING or each.field.tokens not in said
        ]
    return _ordered(found)


def _runs_elsewhere(value: object) -> bool:
    """Return whether KubeRay leaves an object to MultiKueue.

    https://kueue.sigs.k8s.io/docs/tasks/run/multikueue/kuberay/
    """
    return bool(at(value, "spec", "managedBy") == names.KUEUE_MULTIKUEUE)


def _fewer(before: object, after: object) -> bool:
    return isinstance(before, int) and isinstance(after, int) and after < before


def _left_behind(kind: str, old: object, new: object, settings: RuleSettings) -> list[Finding]:
    """Return warnings of problems that an update which only scales leaves behind."""
    update = read_update(*(read_ray_object(kind, each, settings) for each in (old, new)))
    found = _run(SCALE_RULES, update, settings) if update is not None else ()
    return _ordered(map(_softened, found))


def _quotas(kind: str, old: object, new: object, settings: RuleSettings) -> Iterator[Finding]:
    """Yield the findings of the limits of a namespace in an update that only scales."""
    before, after = (read_ray_object(kind, each, settings) for each in (old, new))
    return _run(QUOTA_RULES, Growth(before, after), settings)


def _new(old: RayObject, new: RayObject, settings: RuleSettings, find: Find) -> list[Finding]:
    """Return the findings in the new object; denials that the old object had too become warnings.
    A warning that the update makes a denial is new.
    """
    found = list(find(new, settings))
    places = Counter(each.place for each in found if each.level == DENY)
    if not places:
        return found
    before: dict[tuple[object, ...], list[Finding]] = {}
    previous: dict[tuple[object, ...], list[Finding]] = {}
    for each in (each for each in find(old, settings) if each.level == DENY):
        before.setdefault(each.place, []).append(each)
        previous.setdefault((each.rule, each.field.tokens), []).append(each)

    def known(finding: Finding) -> bool:
        """Return whether the old object had this finding, or as many of the rule at the field: the
        value may have changed, and a message may name other fields.
        """
        same = before.get(finding.place) or [
            each
            for each in previous.get((finding.rule, finding.field.tokens), ())
            if finding.field.renamed(each.field)
        ]
        messages = {each.message for each in same}
        return places[finding.place] <= len(same) or finding.message in messages

    return [_softened(each) if known(each) else each for each in found]


def being_deleted(value: object) -> bool:
    """Return whether an object is being deleted: only its finalizers keep it."""
    return at(value, "metadata", "deletionTimestamp") is not None


def unknown_names(settings: RuleSettings) -> list[str]:
    """Return an error message for each unknown rule, enforcement action, gate and release in
    settings, printed at startup.
    """
    known, levels = {rule.id for rule in RULES}, (OFF, WARN, DENY)
    return [
        *(
            f"there is no rule {name!r}{_near(name, known) or _ALL}"
            for name in settings.levels
            if name not in known
        ),
        *(
            f"rule {name} cannot be {level!r}: write {OFF}, {WARN} or {DENY}"
            for name, level in settings.levels.items()
            if level not in levels
        ),
        *(
            f"there is no gate {name!r}{_near(name, GATES) or '; known are ' + ', '.join(GATES)}"
            for name in settings.gates
            if name not in GATES
        ),
        *_unknown_release(settings.kuberay),
    ]


def _unknown_release(release: KubeRay | None) -> Iterator[str]:
    """Yield that a release is not one of those that the rules are for."""
    major, newest = NEWEST
    if release is not None and not (major, 1) <= release <= NEWEST:
        known = ", ".join(f"{major}.{minor}" for minor in range(1, newest + 1))
        yield f"the rules do not know KubeRay {release[0]}.{release[1]}: write one of {known}"


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _findings(ray_object: RayObject, settings: RuleSettings) -> Iterator[Finding]:
    views: tuple[tuple[tuple[Rule[Any], ...], object], ...] = (
        (OBJECT_RULES, ray_object),
        (CRON_RULES, ray_object if ray_object.kind == names.RAYCRONJOB_KIND else None),
        (JOB_RULES, ray_object.job),
        (SERVICE_RULES, ray_object.service),
        (CLUSTER_RULES, ray_object.cluster),
    )
    for rules, view in views:
        if view is not None:
            yield from _run(rules, view, settings)


def _run(rules: Iterable[Rule[T]], view: T, settings: RuleSettings) -> Iterator[Finding]:
    levels = settings.levels
    for rule in rules:
        level = levels.get(rule.id, rule.level) if levels else rule.level
        if level != OFF:
            for fault in islice(rule.check(view), FAULTS_MAX):
                checked = settings.since(max(rule.since, fault.since))
                if checked is not False:
                    own = WARN if fault.doubtful or checked is None else level
                    message = fault.message[:MESSAGE_MAX]
                    yield Finding(rule.id, own, fault.field, message, fault.reason)


def _only_stopping(finding: Finding) -> Finding:
    """Return a finding, as a warning unless the value stops KubeRay."""
    return finding if finding.rule in _STOPPING else _softened(finding)


def _softened(finding: Finding) -> Finding:
    return Finding(finding.rule, WARN, finding.field, finding.message, finding.reason)


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.level != DENY, finding.field.position))
