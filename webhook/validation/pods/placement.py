"""Checks of pod placement in a template: selectors, affinity, tolerations, topology spread."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import is_label_value, is_qualified_name
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import InspectedPod, Part, format_value, wrong
from webhook.validation.pods.value_checks import KEY_ADVICE, VALUE_ADVICE

_LISTS: Final = ("In", "NotIn")
_BARE: Final = ("Exists", "DoesNotExist")
_NUMBERS: Final = ("Gt", "Lt")
_EFFECT: Final = "NoExecute"


def check_selector_labels(selected: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report keys and values that cannot be labels."""
    for name, value in selected.map.items():
        if not is_qualified_name(name):
            yield Fault(selected.key(name), f"key is {format_value(name)}: {KEY_ADVICE}")
        if type(value) is str and not is_label_value(value):
            yield _bad_value(selected.key(name))


def _bad_key(field: Field) -> Fault:
    return Fault(field, f"key is {format_value(field.text)}: {KEY_ADVICE}")


def _bad_value(field: Field) -> Fault:
    advice = "replace the placeholder" if "$" in field.text else VALUE_ADVICE
    return Fault(field, f"value is {format_value(field.text)}: {advice}")


def check_required_terms(affinity: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a required node affinity without terms."""
    terms = affinity / "nodeSelectorTerms"
    if type(affinity.value) is dict and not terms.value:
        message = "nodeSelectorTerms is empty: write a term, or remove the affinity"
        yield Fault(terms, message, REQUIRED)


def _texts(listed: Field) -> list[Field]:
    return [field for field in listed.items() if type(field.value) is str]


def _requirement(*known: str, values_checked: bool = True) -> Part:
    """Return a part that reports an invalid requirement, given the known operators."""

    def check(each: Field, _: InspectedPod) -> Iterator[Fault]:
        operator, values = (each / "operator").text, each / "values"
        texts = _texts(values)
        if operator not in known:
            yield wrong(each / "operator", f"write one of {', '.join(known)}")
        elif operator in _NUMBERS and len(texts) != 1:
            message = f"operator {operator} has {len(texts)} values: write one number"
            yield Fault(values, message, REQUIRED)
        elif operator in _LISTS and not texts:
            yield Fault(values, f"operator {operator} has no values: write at least one", REQUIRED)
        elif operator in _BARE and texts:
            yield Fault(values, f"operator {operator} takes no values: remove them", FORBIDDEN)
        if not is_qualified_name((each / "key").text):
            yield _bad_key(each / "key")
        if values_checked:
            yield from (_bad_value(value) for value in texts if not is_label_value(value.text))

    return check


node_requirement: Final = _requirement(*_LISTS, *_BARE, *_NUMBERS)
preferred_requirement: Final = _requirement(*_LISTS, *_BARE, *_NUMBERS, values_checked=False)
label_requirement: Final = _requirement(*_LISTS, *_BARE)


def pod_term(term: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a term of pod affinity without a valid topology."""
    topology = term / "topologyKey"
    if not is_qualified_name(topology.text):
        yield wrong(topology, "set it")


def label_keys(term: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report label keys without the selector that they extend."""
    for listed in (term / "matchLabelKeys", term / "mismatchLabelKeys"):
        if listed.size and not (term / "labelSelector").given:
            yield Fault(listed, f"{listed.token} needs a labelSelector: add it", FORBIDDEN)


def toleration(each: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a toleration whose operator, value and effect contradict each other."""
    name, operator, value = each / "key", each / "operator", each / "value"
    kind = operator.text
    if name.text and not is_qualified_name(name.text):
        yield _bad_key(name)
    elif not name.text and kind != "Exists":
        message = f"a toleration without key has operator {format_value(kind)}: write Exists"
        yield Fault(operator, message)
    if kind == "Exists" and value.text:
        message = (
            f"toleration Exists has value {format_value(value.text)}: remove it, or write Equal"
        )
        yield Fault(value, message)
    elif kind in ("", "Equal"):
        if not is_label_value(value.text):
            yield _bad_value(value)
    elif kind not in ("Exists", *_NUMBERS):
        near = next((name for name in ("Equal", "Exists") if name.lower() == kind.lower()), "")
        yield wrong(operator, f"write {near or 'Equal or Exists'}")
    effect = each / "effect"
    if (each / "tolerationSeconds").given and effect.text != _EFFECT:
        message = f"tolerationSeconds needs effect {_EFFECT}: write that, or remove it"
        yield Fault(effect, message)


def constraint(each: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a topology spread constraint that no scheduler can satisfy."""
    topology, minimum = each / "topologyKey", each / "minDomains"
    if not topology.text:
        yield Fault(topology, "topologyKey is empty: set it", REQUIRED)
    if minimum.given and (each / "whenUnsatisfiable").text != "DoNotSchedule":
        message = "minDomains needs whenUnsatisfiable DoNotSchedule: write that, or remove it"
        yield Fault(minimum, message)
