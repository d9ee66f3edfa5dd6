"""Binding of a pod copies the allowed labels of its Node, and is never refused."""

import asyncio
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import Webhook
from tests.harness.apiserver import pod_review
from webhook.admission.binding_handler import BindingHandler
from webhook.admission.codec import decode_object
from webhook.admission.reviewer import Mutation
from webhook.api.objects import Strings

CLIQUE = "nvidia.com/gpu.clique"
LABELS = {"n1": {CLIQUE: "b7.0"}, "n2": {}}


def review(binding: Any) -> bytes:  # noqa: ANN401 - also what is no binding
    body = pod_review({"metadata": {}})
    body["request"] |= {
        "kind": {"group": "", "version": "v1", "kind": "Binding"}, "subResource": "binding",
        "name": "worker-0", "object": binding,
    }  # fmt: skip
    return json.dumps(body).encode()


def bound_to(node: str, **meta: Any) -> dict[str, Any]:  # noqa: ANN401 - metadata
    target = {"kind": "Node", "name": node}
    return {"metadata": {"name": "worker-0", "uid": "u", **meta}, "target": target}


async def labels(node: str) -> Strings:
    return LABELS.get(node, {})


def answered(binding: Any) -> Any:  # noqa: ANN401 - a binding, if it was one
    """Return a binding as it is stored, after the review by the whole of `/mutate`."""
    mutation = Mutation(Webhook().handler)
    mutation.bindings = BindingHandler(labels)
    outcome = asyncio.run(mutation.review(review(binding)))
    assert outcome.answer.allowed
    assert json.loads(outcome.body)["response"]["allowed"]
    patch = json.loads(outcome.answer.patch or b"[]")
    return jsonpatch.apply_patch(binding, patch)


def test_labels_of_the_node_become_annotations_and_those_of_the_binding_stay() -> None:
    assert answered(bound_to("n1"))["metadata"]["annotations"] == {CLIQUE: "b7.0"}
    binding = bound_to("n1", annotations={"a": "b", CLIQUE: "forged"})
    assert answered(binding)["metadata"]["annotations"] == {"a": "b", CLIQUE: "b7.0"}


@pytest.mark.parametrize("binding", [
    bound_to("n2"), bound_to("unknown"),
    {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n1"}},
    {"metadata": {"name": "p"}, "target": {"name": 7}},
    {"metadata": {"name": "p"}, "target": "n1"}, {"metadata": None},
])  # fmt: skip
def test_everything_else_is_bound_as_it_is(binding: Any) -> None:  # noqa: ANN401
    assert answered(binding) == binding


NOTHING: st.SearchStrategy[Any] = st.sampled_from([None, 7, "text", [], {}])
ANNOTATIONS = NOTHING | st.dictionaries(st.sampled_from(["a", CLIQUE, "a/b~c"]), st.text())
METADATA = NOTHING | st.fixed_dictionaries(
    {}, optional={"annotations": ANNOTATIONS, "name": st.text()}
)
TARGETS = NOTHING | st.fixed_dictionaries(
    {},
    optional={
        "kind": NOTHING | st.sampled_from(["Node", "Pod"]),
        "name": NOTHING | st.sampled_from(["n1", "n2", ""]),
    },
)


@given(NOTHING | st.fixed_dictionaries({}, optional={"metadata": METADATA, "target": TARGETS}))
@example({"target": {"name": "n1"}})
@example({"metadata": None, "target": {"name": "n1"}})
def test_each_binding_gets_a_patch_that_applies_and_a_second_review_changes_nothing(
    binding: Any,  # noqa: ANN401 - also what is no binding
) -> None:
    stored = answered(binding)
    if stored != binding:
        assert stored["metadata"]["annotations"][CLIQUE] == "b7.0"
        assert stored["target"] == binding["target"]
    assert answered(stored) == stored


def test_without_a_handler_bindings_pass() -> None:
    outcome = asyncio.run(Mutation(Webhook().handler).review(review(bound_to("n1"))))
    assert (outcome.answer.allowed, outcome.answer.patch) == (True, None)


def test_a_review_without_an_object_is_allowed() -> None:
    answer = asyncio.run(BindingHandler(labels)(decode_object(review(None))))
    assert answer.patch is None
