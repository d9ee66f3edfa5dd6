"""The fold writes each edit once, into existing parents."""

import json
from typing import Any

import jsonpatch
import pytest

from tests.builders import a_cluster, facts, manifest
from webhook.groups.identity import HostIdentity
from webhook.manifest.views import as_pod
from webhook.mutation.edit import (
    AppendTerm,
    Edit,
    SetEnv,
    SetField,
    SetLabel,
    Warn,
)
from webhook.mutation.fold import encode, fold
from webhook.mutation.ray_pod import Replica, read_replica

Object = dict[str, Any]
PATH = "/spec/containers/0"


def folded(pod: Object, *edits: Edit) -> Object:
    """Return the pod after an independent library applied the patch of the edits."""
    operations = json.loads(encode(fold(replica_of(pod), edits)))
    patched: Object = jsonpatch.apply_patch(pod, operations)
    return patched


def replica_of(pod: Object) -> Replica:
    """Return a single-host replica that was read from this pod."""
    cluster = facts(a_cluster("c").group("g"))
    return read_replica(
        as_pod(manifest(pod)),
        HostIdentity(0, 0, ""),
        cluster,
        cluster.groups["g"],
        holder="0123456789ab",
    )


def a_pod_with(*env: Object) -> Object:
    """Return a pod whose one container has these variables."""
    return {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "c", "env": list(env)}]}}


def variable(name: str, value: str = "1") -> Object:
    """Return one entry of `env`."""
    return {"name": name, "value": value}


def added(name: str, *, slot: int = -1, after: int = -1) -> SetEnv:
    """Return the edit that gives a variable the value `new`."""
    return SetEnv(PATH, name, "new", "because", slot=slot, after=after)


def env(pod: Object) -> list[str]:
    """Return `name=value` of each variable, in order."""
    return [
        f"{entry['name']}={entry.get('value')}" for entry in pod["spec"]["containers"][0]["env"]
    ]


def test_no_edits_are_no_operations() -> None:
    assert fold(replica_of(a_pod_with()), []) == []
    assert fold(replica_of(a_pod_with()), [Warn("careful")]) == []


@pytest.mark.parametrize("meta", [{}, {"labels": None}])
def test_missing_labels_are_created_with_all_that_is_added(meta: Object) -> None:
    pod = {"metadata": meta, "spec": {}}
    assert folded(pod, SetLabel("a/b", "1", ""), SetLabel("c~d", "2", ""))["metadata"][
        "labels"
    ] == {"a/b": "1", "c~d": "2"}


def test_keys_of_labels_are_escaped() -> None:
    pod = {"metadata": {"labels": {"x": "0"}}, "spec": {}}
    after = folded(pod, SetLabel("ray.io/a~b", "1", ""), SetLabel("~1", "2", ""))
    assert after["metadata"]["labels"] == {"x": "0", "ray.io/a~b": "1", "~1": "2"}


@pytest.mark.parametrize(
    "container", [{"name": "c"}, {"name": "c", "env": None}, {"name": "c", "env": []}]
)
def test_missing_variables_are_created_in_order(container: Object) -> None:
    pod = {"metadata": {}, "spec": {"containers": [container]}}
    assert env(folded(pod, added("A"), added("B"))) == ["A=new", "B=new"]


def test_additions_stand_in_front_in_their_own_order() -> None:
    assert env(folded(a_pod_with(variable("X")), added("A"), added("B"))) == [
        "A=new",
        "B=new",
        "X=1",
    ]


def test_a_replacement_keeps_its_place() -> None:
    pod = a_pod_with(variable("X"), variable("Y"), variable("Z"))
    assert env(folded(pod, added("Y", slot=1))) == ["X=1", "Y=new", "Z=1"]


def test_a_variable_that_refers_to_another_stands_right_behind_it() -> None:
    pod = a_pod_with(variable("X"), variable("Y"))
    assert env(folded(pod, added("A", after=0))) == ["X=1", "A=new", "Y=1"]


def test_all_three_at_once_do_not_disturb_each_other_whatever_their_order() -> None:
    pod = a_pod_with(variable("W"), variable("X"), variable("Y"), variable("Z"))
    edits = [
        added("A"),
        added("Z", slot=3),
        added("B", after=0),
        added("X", slot=1),
        added("C", after=2),
        added("D"),
    ]
    wanted = ["A=new", "D=new", "W=1", "B=new", "X=new", "Y=1", "C=new", "Z=new"]
    assert env(folded(pod, *edits)) == wanted
    assert sorted(env(folded(pod, *reversed(edits)))) == sorted(wanted)


def test_a_replacement_drops_the_old_source() -> None:
    pod = a_pod_with({"name": "X", "value": ""})
    after = folded(pod, SetEnv(PATH, "X", "", "", slot=0, field_path="status.hostIP"))
    assert after["spec"]["containers"][0]["env"] == [
        {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    ]


def test_init_containers_have_paths_of_their_own() -> None:
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "a"}, {"name": "b"}]},
    }
    after = folded(pod, SetEnv("/spec/initContainers/1", "A", "new", ""))
    assert after["spec"]["initContainers"] == [
        {"name": "a"},
        {"name": "b", "env": [variable("A", "new")]},
    ]
    assert after["spec"]["containers"] == [{"name": "c"}]


@pytest.mark.parametrize("given", [{}, {"hostname": None}, {"hostname": ""}])
def test_a_field_is_set_wherever_nothing_was(given: Object) -> None:
    assert folded({"metadata": {}, "spec": given}, SetField("hostname", "h", ""))["spec"] == {
        "hostname": "h"
    }


def test_unknown_fields_are_never_lost() -> None:
    pod = a_pod_with({"name": "X", "value": "1", "unheard": {"of": [1.50]}}) | {
        "extra": {"a": None}
    }
    after = folded(pod, added("A"), SetLabel("l", "v", ""), AppendTerm("podAffinity", {"t": 1}, ""))
    assert after["extra"] == {"a": None}
    assert after["spec"]["containers"][0]["env"][1] == pod["spec"]["containers"][0]["env"][0]
