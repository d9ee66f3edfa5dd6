"""Properties of every pod: only documented changes, and an empty second patch."""

import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import ROOT
from tests.builders import Decided, Object, Webhook, a_cluster, a_pod, manifest
from tests.webhook.mutation.pod_resources import RESOURCES, effective, is_guaranteed
from tests.webhook.mutation.strategies import OTHERS, Case, cases
from webhook.admission.pod_handler import PodDecision
from webhook.api import names
from webhook.api.formats import is_dns_label, is_label_value
from webhook.api.objects import WAIT_FOR_HEAD_MOST
from webhook.api.quantity import parse_quantity
from webhook.api.review import Denied
from webhook.cli.files import read_manifests
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster, as_pod
from webhook.mutation.edit import (
    AddClaim,
    AppendResizeRule,
    AppendTerm,
    Edit,
    Note,
    SetAmount,
    SetAnnotation,
    SetEnv,
    SetField,
    SetLabel,
    SetPreStop,
    Warn,
)
from webhook.mutation.pipeline import edits
from webhook.mutation.ray_pod import DEFAULT_POLICY
from webhook.reservation.stores import at_once

EXAMPLES = ROOT / "examples"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX, names.LABEL_COMPUTE_DOMAIN}
EMPTY_ONLY = ("hostname", "subdomain", "schedulingGroup")
"""Fields of `spec` that are only set where they are empty."""
REFERRING = (
    names.TPU_DEVICE_PLUGIN_ADDR, names.PET_NNODES, names.PET_MASTER_ADDR, names.PET_MASTER_PORT,
)  # fmt: skip
"""Variables whose value refers to another one, behind which they stand."""
GRACE = "terminationGracePeriodSeconds"
"""A field of `spec` that only grows."""

_TWICE = a_pod().of("c").worker("g").topology("2x2x1").tpu(4).env(names.TPU_WORKER_ID, "0")
VALUE_OF_AN_EARLIER_ENTRY = Case(
    _TWICE.env(names.TPU_WORKER_ID, None).build(), a_cluster("c").group("g").build()
)
"""The last entry of a name counts; here it is empty, and receives the value of the one before."""


class Seen:
    """One pod, admitted once and then again as a later webhook would make the API server ask."""

    def __init__(self, case: Case) -> None:
        self.before = case.pod
        self.webhook = Webhook(case.cluster)
        self.once: Decided = self.webhook.admit(copy.deepcopy(case.pod))
        self.edits = edits_of(case)

    @property
    def after(self) -> Object:
        return self.once.pod


def edits_of(case: Case) -> list[Edit]:
    place, pod = Webhook(case.cluster).handler.place, as_pod(manifest(case.pod))
    try:
        placed = at_once(place(pod, pod.metadata.namespace or "default", "request-0", dry_run=True))
    except Denied:
        return []
    return edits(placed.replica, placed.identity.host) if isinstance(placed, PodDecision) else []


def interpret(pod: Object, edits: list[Edit]) -> Object:
    """Return the pod as the docstrings of the edits claim it to be, without a patch."""
    pod = copy.deepcopy(pod)
    for edit in edits:
        if isinstance(edit, SetAmount):
            container = at(pod, edit.container)
            assert container["name"] == names.WAIT_FOR_HEAD
            amounts, most = container["resources"][edit.kind], WAIT_FOR_HEAD_MOST[edit.resource]
            assert parse_quantity(amounts[edit.resource]) < parse_quantity(edit.value)
            assert parse_quantity(edit.value) <= parse_quantity(most)
            amounts[edit.resource] = edit.value
        else:
            _claim(pod, edit)
    for path in {edit.container for edit in edits if isinstance(edit, SetEnv)}:
        container = at(pod, path)
        changes = [edit for edit in edits if isinstance(edit, SetEnv) and edit.container == path]
        container["env"] = _variables(container.get("env") or [], changes)
    return pod


def _claim(pod: Object, edit: Edit) -> None:
    match edit:
        case SetLabel(key, value):
            assert key in LABELS - pod["metadata"]["labels"].keys()
            pod["metadata"]["labels"][key] = value
        case SetAnnotation(key, value):
            annotations = pod["metadata"]["annotations"] = pod["metadata"].get("annotations") or {}
            assert key not in annotations
            annotations[key] = value
        case SetField(name, value):
            had = pod["spec"].get(name)
            grows = isinstance(value, int) and name == GRACE and value > (had or 0)
            assert grows or (name in EMPTY_ONLY and not had)
            pod["spec"][name] = value
        case AppendTerm(kind, term):
            assert kind in ("podAffinity", "podAntiAffinity")
            affinity = pod["spec"]["affinity"] = pod["spec"].get("affinity") or {}
            rules = affinity[kind] = affinity.get(kind) or {}
            rules[REQUIRED] = [*(rules.get(REQUIRED) or []), term]
        case AppendResizeRule(path, resource):
            container = at(pod, path)
            assert container is ray_of(pod)
            rule = {"resourceName": resource, "restartPolicy": "NotRequired"}
            container["resizePolicy"] = [*(container.get("resizePolicy") or []), rule]
        case AddClaim(name, template, paths):
            claim = {"name": name, "resourceClaimTemplateName": template}
            pod["spec"]["resourceClaims"] = [*(pod["spec"].get("resourceClaims") or []), claim]
            for path in paths:
                resources = at(pod, path)["resources"] = at(pod, path).get("resources") or {}
                resources["claims"] = [*(resources.get("claims") or []), {"name": name}]
        case SetPreStop(path, command):
            present = at(pod, path).get("lifecycle") or {}
            assert not {"preStop", "postStart"} & present.keys()
            added = {"preStop": {"exec": {"command": [*command]}}}
            at(pod, path)["lifecycle"] = present | added
        case SetEnv() | Warn() | Note():
            pass


def _variables(env: list[Object], changes: list[SetEnv]) -> list[Object]:
    """Return the entries of a container: new ones first, then the old, replaced or moved."""
    found = [_entry(edit) for edit in changes if edit.slot < 0 and edit.after < 0]
    for number, old in enumerate(env):
        replacements = [edit for edit in changes if edit.slot == number]
        assert [edit.name for edit in replacements] in ([], [old["name"]])
        if not any(edit.after >= 0 for edit in replacements):
            found += [_entry(edit) for edit in replacements] or [old]
        found += [_entry(edit) for edit in changes if edit.after == number]
    return found


def _entry(edit: SetEnv) -> Object:
    if edit.field_path:
        return {"name": edit.name, "valueFrom": {"fieldRef": {"fieldPath": edit.field_path}}}
    return {"name": edit.name, "value": edit.value}


def at(pod: Object, path: str) -> Object:
    _, spec, kind, index = path.split("/")
    found: Object = pod[spec][kind][int(index)]
    return found


def ray_of(pod: Object) -> Object:
    main: list[Object] = pod["spec"]["containers"]
    for each in main:
        if names.RAY_START_COMMAND in {entry["name"] for entry in each.get("env") or ()}:
            return each
    return main[0]


def containers(pod: Object) -> list[Object]:
    return [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]


def check(case: Case) -> Seen:
    seen = Seen(case)
    if not seen.once.answer.allowed:
        assert seen.once.patch == []
        return seen
    assert seen.after == interpret(seen.before, seen.edits)
    assert sorted(seen.once.answer.warnings) == sorted(
        edit.text for edit in seen.edits if isinstance(edit, Warn)
    )
    before, after = seen.before, seen.after
    for resource in RESOURCES:
        amounts = [effective(pod, "requests", resource) for pod in (before, after)]
        assert amounts[0] == amounts[1]
    assert is_guaranteed(after) is is_guaranteed(before)
    _the_api_server_accepts(after)
    for mine, theirs in zip(containers(before), containers(after), strict=True):
        old, new = mine.get("env") or [], theirs.get("env") or []
        _only_placeholders_are_replaced(old, new)
        _no_name_occurs_more_often(old, new)
        _references_resolve(old, new)
    again = seen.webhook.admit(copy.deepcopy(seen.after))
    assert again.answer.allowed
    assert again.answer.patch is None
    assert set(again.answer.warnings) <= set(seen.once.answer.warnings)
    return seen


def _only_placeholders_are_replaced(old: list[Object], new: list[Object]) -> None:
    """Check that entries of the user stay in order but for one that refers to another, and that
    only the last of a name gives way, when it says nothing.

    Entries are told apart by place: a placeholder may receive the very value that an earlier entry
    of its name has.
    """
    last = {entry["name"]: number for number, entry in enumerate(old)}
    kept = [entry for entry in new if entry["name"] in last]
    order = [entry["name"] for entry in kept]
    for name in REFERRING:
        if name in last and order[last[name]] != name:  # it has moved, and may follow the others
            at = len(order) - 1 - order[::-1].index(name)
            assert at > last[name]
            kept.insert(last[name], kept.pop(at))
            order.insert(last[name], order.pop(at))
    for number, (was, now) in enumerate(zip(old, kept, strict=True)):
        assert now["name"] == was["name"]
        if now != was:
            assert last[was["name"]] == number
            assert "valueFrom" not in was
            assert was.get("value") in {None, "", "0", "localhost"}


def _no_name_occurs_more_often(old: list[Object], new: list[Object]) -> None:
    before = Counter(entry["name"] for entry in old)
    for name, count in Counter(entry["name"] for entry in new).items():
        assert count == max(before[name], 1)


def _the_api_server_accepts(pod: Object) -> None:
    for value in pod["metadata"]["labels"].values():
        assert is_label_value(value)
    for container in containers(pod):
        rules = [rule["resourceName"] for rule in container.get("resizePolicy") or []]
        assert len(set(rules)) == len(rules)
    for key in ("hostname", "subdomain"):
        assert not pod["spec"].get(key) or is_dns_label(pod["spec"][key])
    for container in containers(pod):
        for entry in container.get("env") or []:
            assert isinstance(entry.get("value", ""), str)
            assert not (entry.get("value") and entry.get("valueFrom"))


def _references_resolve(old: list[Object], new: list[Object]) -> None:
    """Check that each new variable stands before every entry of the user that refers to it, and
    behind what it refers to.

    Only the device plugin's address may come late to an entry of the user that refers to it: it
    must follow an address of the host that the user gave.
    """
    known = {entry["name"] for entry in old}
    order = [entry["name"] for entry in new]
    late = {names.TPU_DEVICE_PLUGIN_ADDR} if names.TPU_DEVICE_PLUGIN_HOST_IP in known else set()
    for number, entry in enumerate(new):
        for name in {*re.findall(r"\$\((\w+)\)", entry.get("value") or "")} & {*order} - late:
            if name not in known or entry not in old:
                assert order.index(name) < number, (
                    f"{entry['name']} refers to {name}, which comes later"
                )


@settings(
    max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@example(VALUE_OF_AN_EARLIER_ENTRY)
@given(cases())
def test_any_ray_pod_is_completed_exactly_once_or_refused_untouched(case: Case) -> None:
    seen = check(case)
    event("admitted" if seen.once.answer.allowed else "refused")
    event(f"{min(len(seen.edits) // 10, 3)}0 edits or more")


@settings(
    max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(case=cases(), others=OTHERS, zones=st.booleans())
def test_after_the_change_of_another_webhook_a_pod_is_completed_as_if_it_had_come_so(
    case: Case, others: list[Callable[[Object], None]], zones: bool
) -> None:
    webhook = Webhook(case.cluster, policy=replace(DEFAULT_POLICY, zones=zones))
    pod = webhook.admit(copy.deepcopy(case.pod)).pod
    for change in others:
        change(pod)
    once = webhook.admit(copy.deepcopy(pod))
    twice = webhook.admit(copy.deepcopy(once.pod))
    assert twice.answer.allowed is once.answer.allowed
    assert twice.pod == once.pod
    assert not twice.patch
    labels = {key: pod["metadata"]["labels"].get(key) for key in names.IDENTITY_LABELS}
    assert {key: once.pod["metadata"]["labels"].get(key) for key in labels} == labels or not any(
        labels.values()
    )


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(cases())
def test_pods_of_one_template_get_own_identities_and_equal_patches(case: Case) -> None:
    labels = case.pod["metadata"]["labels"]
    assume(
        labels[names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER
        and not set(names.IDENTITY_LABELS) & labels.keys()
    )
    webhook = Webhook(case.cluster)
    admitted = [webhook.admit(copy.deepcopy(case.pod)) for _ in range(5)]
    identities = [
        tuple(each.pod["metadata"]["labels"].get(label) for label in names.IDENTITY_LABELS)
        for each in admitted
        if each.answer.allowed
    ]
    assert len(set(identities)) == len(identities)
    for each in admitted:
        carried = copy.deepcopy(case.pod)
        carried["metadata"]["labels"] = each.pod["metadata"]["labels"]
        assigned = each.pod["metadata"].get("annotations")
        if assigned is not None:  # it may say whose the identity is, which the labels do not
            carried["metadata"]["annotations"] = assigned
        assert Webhook(case.cluster).admit(carried).pod == each.pod


@pytest.mark.parametrize(
    "indexed", [False, True], ids=["without identity labels", "with identity labels"]
)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_pod_of_every_example_is_completed_exactly(path: Path, indexed: bool) -> None:
    for each in read_manifests([path]):
        cluster = as_cluster(each)
        known = {
            **each.document,
            "metadata": {
                **each.document["metadata"], "namespace": "default",
                "uid": cluster.metadata.uid}}  # fmt: skip
        pods = list(expand(known, cluster, indexed=indexed))
        for pod in pods[1:9]:
            seen = check(Case(json.loads(json.dumps(pod)), known))
            assert seen.once.answer.allowed
            assert seen.once.answer.warnings == ()
            carried = seen.before["metadata"]["labels"].keys() & set(names.IDENTITY_LABELS)
            assert bool(carried) == indexed
            assert names.LABEL_REPLICA_INDEX in seen.after["metadata"]["labels"]
        head = check(Case(json.loads(json.dumps(pods[0])), known))
        assert head.once.answer.allowed
        assert head.once.answer.warnings == ()
        assert not head.after["metadata"]["labels"].keys() & set(names.IDENTITY_LABELS)
