"""All rules, in order, and the functions that apply them to an object or an update."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar

from webhook.api import names
from webhook.api.formats import nearest
from webhook.api.review import TYPE_INVALID
from webhook.manifest.yaml_values import DuplicateKey
from webhook.validation.change import only_queued, only_scaled, read_update, replicas_of
from webhook.validation.crd import NEWEST
from webhook.validation.decoding import count_fits
from webhook.validation.field import Field, at
from webhook.validation.finding import DENY, OFF, WARN, Finding, KubeRay
from webhook.validation.growth import Growth, read_growth, read_limits
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
from webhook.validation.schema import meant, prune_object
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
    findings = _findings(ray_object, settings)
    return _finalize_findings(
        value, chain(findings, _forecast(read_growth(None, ray_object), settings))
    )


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
    value, or on a misspelt field, is left out, and so is one inside a field that the CRD denies.
    """
    findings = check(kind, prune_object(kind, value, settings.kuberay), settings)
    for version in meant(kind, value, settings):
        version_findings = check(kind, prune_object(kind, version, settings.kuberay), settings)
        same = {(other.rule, other.field.tokens, other.message) for other in version_findings}
        findings = [
            finding
            for finding in findings
            if (finding.rule, finding.field.tokens, finding.message) in same
        ]
    denied_fields = {finding.field.tokens for finding in findings if finding.level == DENY}
    ray_object = read_ray_object(kind, value, settings)
    ray_object.duplicates = duplicates
    file_findings = list(_run(FILE_RULES, ray_object, settings))
    file_denied = {finding.field.tokens for finding in file_findings if finding.level == DENY}
    findings = [finding for finding in findings if file_denied.isdisjoint(_holders(finding.field))]
    remaining_findings = (
        finding
        for finding in file_findings
        if finding.reason == TYPE_INVALID or finding.field.tokens not in denied_fields
    )
    return _sort_findings([*findings, *remaining_findings])


def _holders(field: Field) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the fields that contain a field."""
    tokens = field.tokens
    return (tokens[:depth] for depth in range(1, len(tokens)))


def check_owned(kind: str, value: object, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    """Return the findings in an object that KubeRay creates for a reviewed object.

    A denial would prevent its owner from recovering or upgrading, so only values that stop KubeRay
    are denials.
    """
    return _sort_findings(
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
        has_growth = any(_fewer(*reversed(pair)) for pair in pairs)
        findings = _left_behind(kind, old, new, settings) if fewer else []
        if has_growth and read_limits(new, settings) is not None:
            findings = _sort_findings([*findings, *forecast(kind, new, settings)])
        return findings
    old_object, new_object = (read_ray_object(kind, value, settings) for value in (old, new))
    if moved or being_deleted(new):
        return _new(old_object, new_object, settings, partial(_run, DECODING_RULES))
    findings = _new(old_object, new_object, settings, _findings)
    update = read_update(old_object, new_object)
    if update is not None:
        findings += _run(UPDATE_RULES, update, settings)
    growth = read_growth(old_object, new_object, second=starts_second(update))
    findings += _forecast(growth, settings)
    return _finalize_findings(new, findings)


def _finalize_findings(value: object, found: Iterable[Finding]) -> list[Finding]:
    """Return the findings of an object in order. For an object that MultiKueue runs in another
    cluster, only values that stop KubeRay are denials, other findings are warnings. A finding that
    a value cannot be decoded is left out if another denial has the same field.
    """
    found = list(found)
    if _runs_elsewhere(value):
        found = list(map(_only_stopping, found))
    if any(finding.rule in _STOPPING for finding in found):
        denied = [
            finding for finding in found if finding.level == DENY and finding.rule not in _STOPPING
        ]
        denied_fields = {finding.field.tokens for finding in denied}
        found = [
            finding
            for finding in found
            if finding.rule not in _STOPPING or finding.field.tokens not in denied_fields
        ]
    return _sort_findings(found)


def _runs_elsewhere(value: object) -> bool:
    """Return whether KubeRay leaves an object to MultiKueue.

    https://kueue.sigs.k8s.io/docs/tasks/run/multikueue/kuberay/
    """
    return bool(at(value, "spec", "managedBy") == names.KUEUE_MULTIKUEUE)


def _fewer(before: object, after: object) -> bool:
    return isinstance(before, int) and isinstance(after, int) and after < before


def _left_behind(kind: str, old: object, new: object, settings: RuleSettings) -> list[Finding]:
    """Return warnings of problems that an update which only scales leaves behind."""
    update = read_update(*(read_ray_object(kind, value, settings) for value in (old, new)))
    findings = _run(SCALE_RULES, update, settings) if update is not None else ()
    return _sort_findings(map(_downgrade_to_warning, findings))


def forecast(kind: str, value: object, settings: RuleSettings) -> list[Finding]:
    """Return the findings of the limits of a namespace for the pods that an existing object lacks,
    among them those that an update which only scales adds.
    """
    ray_object = read_ray_object(kind, value, settings)
    return _sort_findings(_forecast(read_growth(ray_object, ray_object), settings))


def _forecast(growth: Growth | None, settings: RuleSettings) -> Iterator[Finding]:
    return iter(()) if growth is None else _run(QUOTA_RULES, growth, settings)


def _new(old: RayObject, new: RayObject, settings: RuleSettings, find: Find) -> list[Finding]:
    """Return the findings in the new object; denials that the old object had too become warnings.
    A warning that the update makes a denial is new.
    """
    findings = list(find(new, settings))
    places = Counter(finding.place for finding in findings if finding.level == DENY)
    if not places:
        return findings
    denials_by_place: dict[tuple[object, ...], list[Finding]] = {}
    denials_by_field: dict[tuple[object, ...], list[Finding]] = {}
    for denial in (finding for finding in find(old, settings) if finding.level == DENY):
        denials_by_place.setdefault(denial.place, []).append(denial)
        denials_by_field.setdefault((denial.rule, denial.field.tokens), []).append(denial)

    def known(finding: Finding) -> bool:
        """Return whether the old object had this finding, or as many of the rule at the field: the
        value may have changed, and a message may name other fields.
        """
        same = denials_by_place.get(finding.place) or [
            denial
            for denial in denials_by_field.get((finding.rule, finding.field.tokens), ())
            if finding.field.renamed(denial.field)
        ]
        messages = {denial.message for denial in same}
        # Stored objects stay changeable: their controllers write them, to scale or to remove
        # finalizers.
        return places[finding.place] <= len(same) or finding.message in messages

    return [_downgrade_to_warning(finding) if known(finding) else finding for finding in findings]


def being_deleted(value: object) -> bool:
    """Return whether an object is being deleted: only its finalizers keep it."""
    return at(value, "metadata", "deletionTimestamp") is not None


def unknown_names(settings: RuleSettings) -> list[str]:
    """Return an error message for each unknown rule, enforcement action, gate and release in
    settings, printed at startup.
    """
    rule_ids, levels = {rule.id for rule in RULES}, (OFF, WARN, DENY)
    return [
        *(
            f"there is no rule {name!r}{_near(name, rule_ids) or _ALL}"
            for name in settings.levels
            if name not in rule_ids
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
        releases = ", ".join(f"{major}.{minor}" for minor in range(1, newest + 1))
        yield (f"there are no rules for KubeRay {release[0]}.{release[1]}: write one of {releases}")


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, sorted(known))
    return f"; did you mean {near}?" if near else ""


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
                    # KubeRay of an unknown release may accept the value.
                    fault_level = WARN if fault.doubtful or checked is None else level
                    message = fault.message[:MESSAGE_MAX]
                    yield Finding(
                        rule.id,
                        fault_level,
                        field=fault.field,
                        message=message,
                        reason=fault.reason,
                    )


def _only_stopping(finding: Finding) -> Finding:
    """Return a finding, as a warning unless the value stops KubeRay."""
    return finding if finding.rule in _STOPPING else _downgrade_to_warning(finding)


def _downgrade_to_warning(finding: Finding) -> Finding:
    return Finding(
        finding.rule, WARN, field=finding.field, message=finding.message, reason=finding.reason
    )


def _sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.level != DENY, finding.field.position))
