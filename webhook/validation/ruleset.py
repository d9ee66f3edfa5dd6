"""All rules, in order, and the functions that apply them to an object or an update."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, TypeVar

from webhook.api import names
from webhook.validation.change import only_queued, only_scaled, read_update, replicas_of
from webhook.validation.decoding import count_fits
from webhook.validation.finding import DENY, OFF, WARN, Finding
from webhook.validation.ray_object import RayObject, read_ray_object
from webhook.validation.rule_settings import DEFAULTS, GATES, RuleSettings
from webhook.validation.rules import (
    CLUSTER_RULES,
    CRON_RULES,
    DECODING_RULES,
    FILE_RULES,
    JOB_RULES,
    OBJECT_RULES,
    RULES,
    SCALE_RULES,
    SERVICE_RULES,
    UPDATE_RULES,
    Rule,
)
from webhook.validation.schema import pruned
from webhook.validation.units import has_units

T = TypeVar("T")

_STOPPING: Final = frozenset(rule.id for rule in DECODING_RULES)
"""The rules of values that stop KubeRay for all objects."""

Find = Callable[[RayObject, RuleSettings], Iterable[Finding]]

MESSAGE_MAX: Final = 400
"""Maximum characters of a message; only long user-chosen names make messages longer."""

FAULTS_MAX: Final = 200
"""Maximum faults of one rule; it bounds the time that a hostile object can take."""


def check(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings of all rules in an object of one of the four Ray kinds: denials first,
    then sorted by field.
    """
    found = _findings(read_ray_object(kind, value, settings), settings)
    return _decided(value, found)


def check_file(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings in an object that no API server has processed yet.

    The CRD is checked too, and the other rules read the object as the API server would store it. A
    field with a finding of another rule has no second finding of the CRD.
    """
    kept = pruned(kind, value, settings.kuberay)
    found = check(kind, kept, settings)
    said = {finding.field.tokens for finding in found if finding.level == DENY}
    own = _run(FILE_RULES, read_ray_object(kind, value, settings), settings)
    return _ordered([*found, *(each for each in own if each.field.tokens not in said)])


def check_owned(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings in an object that KubeRay creates for a reviewed object.

    A denial would prevent its owner from recovering or upgrading, so only values that stop KubeRay
    are denials.
    """
    found = _findings(read_ray_object(kind, value, settings), settings)
    return _ordered(each if each.rule in _STOPPING else _softened(each) for each in found)


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
        fewer = scaled and any(map(_fewer, replicas_of(kind, old), counts))
        left = fewer or (scaled and has_units(new))
        return _left_behind(kind, old, new, settings) if left else []
    before, after = (read_ray_object(kind, each, settings) for each in (old, new))
    if moved or being_deleted(new):
        return _new(before, after, settings, _undecodable)
    found = _new(before, after, settings, _findings)
    update = read_update(before, after)
    if update is not None:
        found += _run(UPDATE_RULES, update, settings)
    return _decided(new, found)


def _decided(value: object, found: Iterable[Finding]) -> list[Finding]:
    """Return the findings of an object in order. For an object that MultiKueue runs in another
    cluster, only values that stop KubeRay are denials, other findings are warnings. A finding that
    a value cannot be decoded is left out if another denial has the same field.
    """
    found = list(found)
    if _runs_elsewhere(value):
        found = [each if each.rule in _STOPPING else _softened(each) for each in found]
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
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and spec.get("managedBy") == names.KUEUE_MULTIKUEUE


def _fewer(before: object, after: object) -> bool:
    return isinstance(before, int) and isinstance(after, int) and after < before


def _left_behind(kind: str, old: object, new: object, settings: RuleSettings) -> list[Finding]:
    """Return warnings of problems that an update which only scales leaves behind."""
    update = read_update(*(read_ray_object(kind, each, settings) for each in (old, new)))
    found = _run(SCALE_RULES, update, settings) if update is not None else ()
    return _ordered(map(_softened, found))


def _new(old: RayObject, new: RayObject, settings: RuleSettings, find: Find) -> list[Finding]:
    """Return the findings in the new object; those that the old object had too become warnings."""
    found = list(find(new, settings))
    if any(finding.level == DENY for finding in found):
        before: dict[tuple[object, ...], list[Finding]] = {}
        previous: dict[tuple[object, ...], list[Finding]] = {}
        for each in find(old, settings):
            before.setdefault(each.place, []).append(each)
            previous.setdefault((each.rule, each.field.tokens), []).append(each)
        places = Counter(each.place for each in found)
        found = [
            _softened(each)
            if _known(each, before.get(each.place) or _renamed(each, previous), places)
            else each
            for each in found
        ]
    return found


def _known(
    finding: Finding, before: Sequence[Finding], places: Counter[tuple[object, ...]]
) -> bool:
    """Return whether the old object had this finding, or as many of the rule at the field: the
    value may have changed, and a message may name other fields.
    """
    return places[finding.place] <= len(before) or any(
        each.message == finding.message for each in before
    )


def _renamed(
    finding: Finding, previous: Mapping[tuple[object, ...], Sequence[Finding]]
) -> Sequence[Finding]:
    """Return the findings of the old object at a field whose group or container was renamed."""
    before = previous.get((finding.rule, finding.field.tokens), ())
    return [each for each in before if finding.field.renamed(each.field)]


def _undecodable(ray_object: RayObject, settings: RuleSettings) -> Iterator[Finding]:
    yield from _run(DECODING_RULES, ray_object, settings)


def being_deleted(value: object) -> bool:
    """Return whether an object is being deleted: only its finalizers keep it."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None


def unknown_names(settings: RuleSettings) -> list[str]:
    """Return an error message for each unknown rule, enforcement action and gate in settings,
    printed at startup.
    """
    known = {rule.id for rule in RULES}
    problems = [
        f"there is no rule {name!r}{_near(name, known)}"
        for name in settings.levels
        if name not in known
    ]
    problems += [
        f"rule {name} cannot be {level!r}: write {OFF}, {WARN} or {DENY}"
        for name, level in settings.levels.items()
        if level not in (OFF, WARN, DENY)
    ]
    problems += [
        f"there is no gate {name!r}{_near(name, GATES) or '; known are ' + ', '.join(GATES)}"
        for name in settings.gates
        if name not in GATES
    ]
    return problems


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _findings(ray_object: RayObject, settings: RuleSettings) -> Iterator[Finding]:
    yield from _run(OBJECT_RULES, ray_object, settings)
    if ray_object.cron is not None:
        yield from _run(CRON_RULES, ray_object.cron, settings)
    if ray_object.job is not None:
        yield from _run(JOB_RULES, ray_object.job, settings)
    if ray_object.service is not None:
        yield from _run(SERVICE_RULES, ray_object.service, settings)
    if ray_object.cluster is not None:
        yield from _run(CLUSTER_RULES, ray_object.cluster, settings)


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


def _softened(finding: Finding) -> Finding:
    return Finding(finding.rule, WARN, finding.field, finding.message, finding.reason)


def _ordered(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.level != DENY, finding.field.position))
