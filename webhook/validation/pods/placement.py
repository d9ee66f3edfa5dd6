"""Checks of pod placement in a template: selectors, affinity, tolerations, topology spread."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from webhook.api.formats import is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name
from webhook.api.review import DUPLICATE, FORBIDDEN, REQUIRED
from webhook.validation.pods.families import PLACEMENT
from webhook.validation.pods.inspection import (
    Examine,
    Pod,
    Way,
    entries,
    key,
    mapping,
    shown,
    text_of,
)
from webhook.validation.pods.value_checks import KEY_ADVICE, VALUE_ADVICE

_LISTS: Final = ("In", "NotIn")
_BARE: Final = ("Exists", "DoesNotExist")
_NUMBERS: Final = ("Gt", "Lt")
_NODE_NAME: Final = "metadata.name"
_EFFECT: Final = "NoExecute"


def selected_labels(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report keys and values that cannot be labels."""
    for name, text in mapping(value).items():
        _name(name, (*way, key(name)), pod)
        if type(text) is str:
            _value(text, (*way, key(name)), pod)


def _name(name: str, way: Way, pod: Pod) -> None:
    if not is_qualified_name(name):
        pod.report(PLACEMENT, way, f"key is {shown(name)}: {KEY_ADVICE}")


def _value(text: str, way: Way, pod: Pod) -> None:
    if not is_label_value(text):
        advice = "replace the placeholder" if "$" in text else VALUE_ADVICE
        pod.report(PLACEMENT, way, f"value is {shown(text)}: {advice}")


def required_terms(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a required node affinity without terms."""
    terms = mapping(value).get("nodeSelectorTerms")
    if type(value) is dict and not terms:
        text = "nodeSelectorTerms is empty: write a term, or remove the affinity"
        pod.report(PLACEMENT, (*way, "nodeSelectorTerms"), text, REQUIRED)
    for index, term in entries(terms):
        node_term(term, (*way, "nodeSelectorTerms", index), pod, strict=True)


def preferred_term(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a preference with an invalid term."""
    term = mapping(value).get("preference")
    if type(term) is dict:
        node_term(term, (*way, "preference"), pod, strict=False)


def node_term(term: Mapping[str, Any], way: Way, pod: Pod, *, strict: bool) -> None:
    """Report invalid node requirements. Values are checked only if a term is required."""
    for index, each in entries(term.get("matchExpressions")):
        place = (*way, "matchExpressions", index)
        operator = text_of(each, "operator")
        many = _values(each)
        if operator in _NUMBERS:
            if len(many) != 1:
                text = f"operator {operator} has {len(many)} values: write one number"
                pod.report(PLACEMENT, (*place, "values"), text, REQUIRED)
        else:
            _requirement(operator, many, (*_LISTS, *_BARE, *_NUMBERS), place, pod)
        _name(text_of(each, "key"), (*place, "key"), pod)
        for at, text in enumerate(many if strict else ()):
            _value(text, (*place, "values", at), pod)
    for index, each in entries(term.get("matchFields")):
        place = (*way, "matchFields", index)
        if text_of(each, "operator") not in _LISTS or len(_values(each)) != 1:
            pod.report(PLACEMENT, place, "matchFields: write operator In or NotIn with one value")
        if text_of(each, "key") != _NODE_NAME:
            pod.report(PLACEMENT, (*place, "key"), f"matchFields: write key {_NODE_NAME}")
        elif not all(map(is_dns_subdomain, _values(each))):
            pod.report(PLACEMENT, (*place, "values"), "matchFields: write the name of a node")


def _values(requirement: Mapping[str, Any]) -> list[str]:
    listed = requirement.get("values")
    return [each for each in listed if type(each) is str] if type(listed) is list else []


def _requirement(operator: str, many: list[str], known: Iterable[str], way: Way, pod: Pod) -> None:
    if operator in _LISTS and not many:
        text = f"operator {operator} has no values: write at least one"
        pod.report(PLACEMENT, (*way, "values"), text, REQUIRED)
    elif operator in _BARE and many:
        text = f"operator {operator} takes no values: remove them"
        pod.report(PLACEMENT, (*way, "values"), text, FORBIDDEN)
    elif operator not in known:
        pod.wrong(PLACEMENT, (*way, "operator"), operator, f"write one of {', '.join(known)}")


def _selector(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a label selector that the API server cannot parse."""
    held = mapping(value)
    selected_labels(held.get("matchLabels"), (*way, "matchLabels"), pod)
    for index, each in entries(held.get("matchExpressions")):
        place = (*way, "matchExpressions", index)
        many = _values(each)
        _requirement(text_of(each, "operator"), many, (*_LISTS, *_BARE), place, pod)
        _name(text_of(each, "key"), (*place, "key"), pod)
        for at, text in enumerate(many):
            _value(text, (*place, "values", at), pod)


def pod_term(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a term of pod affinity with invalid selectors, namespaces or topology."""
    if type(value) is not dict:
        return
    _selector(value.get("labelSelector"), (*way, "labelSelector"), pod)
    _selector(value.get("namespaceSelector"), (*way, "namespaceSelector"), pod)
    topology = text_of(value, "topologyKey")
    if not is_qualified_name(topology):
        pod.wrong(PLACEMENT, (*way, "topologyKey"), topology, "set it")
    spaces = value.get("namespaces")
    for index, name in enumerate(spaces if type(spaces) is list else ()):
        if type(name) is str and not is_dns_label(name):
            text = f"namespace is {shown(name)}: write the name of a namespace"
            pod.report(PLACEMENT, (*way, "namespaces", index), text)
    _label_keys(value, way, pod)


def weighted_term(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a preferred term of pod affinity, with the checks of a required term."""
    term = mapping(value).get("podAffinityTerm")
    if type(term) is dict:
        pod_term(term, (*way, "podAffinityTerm"), pod)


def _label_keys(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    selector = value.get("labelSelector")
    held = mapping(selector)
    selected = {
        *mapping(held.get("matchLabels")),
        *(text_of(each, "key") for _, each in entries(held.get("matchExpressions"))),
    }
    lists = {}
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        listed = value.get(name)
        lists[name] = [each for each in listed if type(each) is str] if listed else []
        if lists[name] and selector is None:
            text = f"{name} needs a labelSelector: add it"
            pod.report(PLACEMENT, (*way, name), text, FORBIDDEN)
            continue
        for index, each in enumerate(lists[name]):
            place = (*way, name, index)
            _name(each, place, pod)
            # The API server adds to the selector the keys that are labels of the pod
            if name == "matchLabelKeys" and each in selected and each in pod.labels:
                pod.report(PLACEMENT, place, f"labelSelector has {shown(each)} too: keep one")
    both = set(lists["matchLabelKeys"]) & set(lists["mismatchLabelKeys"])
    if both:
        text = f"matchLabelKeys and mismatchLabelKeys have {shown(min(both))}: keep one"
        pod.report(PLACEMENT, (*way, "matchLabelKeys"), text)


def toleration(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a toleration whose operator, value and effect contradict each other."""
    if type(value) is not dict:
        return
    name, operator, text = (text_of(value, each) for each in ("key", "operator", "value"))
    if name:
        _name(name, (*way, "key"), pod)
    elif operator != "Exists":
        message = f"a toleration without key has operator {shown(operator)}: write Exists"
        pod.report(PLACEMENT, (*way, "operator"), message)
    if operator == "Exists" and text:
        message = f"toleration Exists has value {shown(text)}: remove it, or write Equal"
        pod.report(PLACEMENT, (*way, "value"), message)
    elif operator in ("", "Equal") and text:
        _value(text, (*way, "value"), pod)
    elif operator not in ("", "Equal", "Exists", *_NUMBERS):
        near = next((each for each in ("Equal", "Exists") if each.lower() == operator.lower()), "")
        advice = f"write {near or 'Equal or Exists'}"
        pod.wrong(PLACEMENT, (*way, "operator"), operator, advice)
    if value.get("tolerationSeconds") is not None and text_of(value, "effect") != _EFFECT:
        message = f"tolerationSeconds needs effect {_EFFECT}: write that, or remove it"
        pod.report(PLACEMENT, (*way, "effect"), message)


def constraints(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report duplicate topology spread constraints, and those that no scheduler can satisfy."""
    seen: set[tuple[str, str]] = set()
    for index, each in entries(value):
        place = (*way, index)
        topology, action = text_of(each, "topologyKey"), text_of(each, "whenUnsatisfiable")
        if not topology:
            pod.report(PLACEMENT, (*place, "topologyKey"), "topologyKey is empty: set it", REQUIRED)
        text = f"another constraint has {shown(topology)} and {action}: keep one"
        pod.once(seen, (topology, action), PLACEMENT, place, text)
        if each.get("minDomains") is not None and action != "DoNotSchedule":
            text = "minDomains needs whenUnsatisfiable DoNotSchedule: write that, or remove it"
            pod.report(PLACEMENT, (*place, "minDomains"), text)
        _selector(each.get("labelSelector"), (*place, "labelSelector"), pod)
        _label_keys(each, place, pod)


def conditions(name: str) -> Examine:
    """Return the function that examines a list of gates, by the field with their names."""

    def examine(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
        seen: set[str] = set()
        for index, gate in entries(value):
            text = text_of(gate, name)
            _name(text, (*way, index, name), pod)
            if text in seen and name == "name":
                pod.report(PLACEMENT, (*way, index), f"{shown(text)} is listed twice", DUPLICATE)
            seen.add(text)

    return examine
