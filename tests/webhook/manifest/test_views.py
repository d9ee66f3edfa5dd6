"""A manifest of an invalid structure is reported in the words of the rules."""

import pytest

from tests.builders import Object, manifest
from webhook.manifest.views import as_cluster
from webhook.manifest.yaml_values import ManifestError


def problem(document: Object) -> str:
    whole = {"kind": "RayCluster", **document}
    whole["metadata"] = {"name": "abc", **document.get("metadata", {})}
    with pytest.raises(ManifestError) as raised:
        as_cluster(manifest(whole))
    return str(raised.value).partition("RayCluster abc: ")[2]


def an_env(value: object) -> Object:
    containers = [{"env": [{"name": "A", "value": value}]}]
    return {"spec": {"headGroupSpec": {"template": {"spec": {"containers": containers}}}}}


@pytest.mark.parametrize(("document", "message"), [
    ({"metadata": {"namespace": 1}}, 'metadata.namespace: 1 is not a string: quote it, as in "1"'),
    ({"spec": {"rayVersion": 2.9}},
     "spec.rayVersion: 2.9 is not a string: quote the value, which YAML reads as a number"),
    ({"spec": {"workerGroupSpecs": [{"groupName": True}]}}, (
        "spec.workerGroupSpecs[0].groupName: true is not a string: quote the value, which YAML "
        "reads as a boolean")),
    (an_env(1), ("spec.headGroupSpec.template.spec.containers[0].env[0].value: 1 is not a string: "
     'quote it, as in "1"')),
])  # fmt: skip
def test_missing_quotes_are_reported_with_their_field(document: Object, message: str) -> None:
    assert problem(document) == message


def test_null_is_an_unset_field() -> None:
    group = {"groupName": "g", "numOfHosts": None}
    labels: Object = {"a": None, "b": "c"}
    metadata = {"name": "abc", "labels": labels}
    spec = {"workerGroupSpecs": [group]}
    cluster = as_cluster(manifest({"kind": "RayCluster", "metadata": metadata, "spec": spec}))
    assert cluster.groups[0].num_of_hosts == 1
    assert cluster.metadata.labels == {"b": "c"}


@pytest.mark.parametrize("value", [[], {}])
def test_a_map_or_list_is_not_to_be_quoted(value: object) -> None:
    assert "quote" not in problem({"metadata": {"namespace": value}})
