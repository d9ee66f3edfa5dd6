"""Reviews of Ray objects, from bytes to bytes."""

import asyncio
import json

import pytest
from msgspec import structs

from tests.harness.apiserver import object_review
from tests.harness.ray_objects import Built, Json, a_cluster, a_cron_job, a_job, a_service
from webhook.admission.codec import WARNING_MAX
from webhook.admission.ray_handler import CAUSES_MAX, RayHandler, render
from webhook.admission.reviewer import ObjectReviewer, Outcome
from webhook.api.review import INVALID, BadReview
from webhook.validation.field import Field
from webhook.validation.finding import DENY, WARN, Finding
from webhook.validation.rule_settings import RuleSettings


def a_review(new: Json, old: Json | None = None, **request: object) -> bytes:
    review = object_review(new, old=old, uid="u-1")
    review["request"] |= request
    return json.dumps(review).encode()


def reviewed(body: bytes, rules: RuleSettings | None = None) -> Outcome:
    handler = RayHandler() if rules is None else RayHandler(rules)
    return asyncio.run(ObjectReviewer(handler).review(body))


def response_to(body: bytes) -> Json:
    response: Json = json.loads(reviewed(body).body)["response"]
    return response


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
@pytest.mark.parametrize(
    "built", [a_cluster().group(), a_job(), a_service(), a_cron_job()], ids=lambda built: built.kind
)
def test_a_sane_object_passes_without_a_word(built: Built, version: str) -> None:
    resource = _of("ray.io", version, built.kind, f"{built.kind.lower()}s")
    assert response_to(a_review(built.build(), **resource)) == {"uid": "u-1", "allowed": True}


def test_a_denial_lists_every_problem_by_field_with_its_rule() -> None:
    body = a_review(
        a_cluster("2nd").group(hosts=0).group("headgroup").group("other", replicas=99).build()
    )
    response = response_to(body)
    status = response["status"]
    assert (response["allowed"], status["code"], status["reason"]) == (False, 422, "Invalid")
    causes = status["details"].pop("causes")
    assert status["details"] == {"name": "2nd", "group": "ray.io", "kind": "RayCluster"}
    assert {cause["reason"] for cause in causes} == {"FieldValueInvalid"}
    assert [cause["field"] for cause in causes] == [
        "metadata.name", "spec.workerGroupSpecs[0].numOfHosts",
        "spec.workerGroupSpecs[1].groupName"]  # fmt: skip
    name, hosts, group = (cause["message"] for cause in causes)
    assert name == (
        "the name is '2nd': use lower-case letters, digits, '-'; begin with a letter "
        "[name-not-dns-label]"
    )
    assert hosts.endswith("numOfHosts is 0: write 1 to 4096 [num-of-hosts-invalid]")
    assert group == (
        'worker group "headgroup": groupName is headgroup, which is '
        "the head's: use another name [group-name-reserved]\n"
        "refused by ray-webhook; explain: ray-webhook explain rule name-not-dns-label"
    )
    lines = status["message"].splitlines()
    assert lines[0] == "3 problems:"
    assert lines[-1].endswith("; explain: ray-webhook explain rule name-not-dns-label")
    assert [line.split(":")[0] for line in lines[1:-1]] == [f"- {at['field']}" for at in causes]
    assert response["warnings"] == [
        (
            'worker group "other": replicas is 99, so KubeRay takes 10: write 0 to 10, '
            "or change the bounds [replicas-out-of-bounds]"
        )
    ]


BROKEN = a_cluster().group(hosts=0).build()
IGNORED = a_cluster().group(hosts=0).label("admission.ray.io/ignore", "true").build()


@pytest.mark.parametrize(("new", "old", "allowed", "warnings"), [
    (a_cluster().group(hosts=0).label("touched", "yes").build(), BROKEN, True, 1),
    (BROKEN, a_cluster().group().build(), False, 1),  # of the change itself
    (IGNORED, None, True, 0),
    (BROKEN, IGNORED, False, 0),  # it is checked like a creation
    (BROKEN, BROKEN, True, 0),
], ids=["there before", "new", "ignored", "no longer ignored", "unchanged"])  # fmt: skip
def test_a_new_problem_is_denied(new: Json, old: Json | None, allowed: bool, warnings: int) -> None:
    response = response_to(a_review(new, old))
    assert response["allowed"] is allowed
    assert len(response.get("warnings", ())) == warnings


def _of(group: str, version: str, kind: str, resource: str) -> Json:
    return {
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
    }


@pytest.mark.parametrize("request_fields", [
    {"operation": "DELETE"}, {"operation": "CONNECT"}, {"subResource": "status"},
    _of("ray.io", "v2", "RayCluster", "rayclusters"),
    _of("", "v1", "Pod", "pods"), _of("apps", "v1", "RayCluster", "x"),
])  # fmt: skip
def test_what_is_none_of_ours_passes(request_fields: Json) -> None:
    response = response_to(a_review(BROKEN, **request_fields))
    assert response == {"uid": "u-1", "allowed": True}


def test_a_dry_run_is_answered_like_any_other() -> None:
    assert response_to(a_review(BROKEN, dryRun=True))["allowed"] is False


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000,
    a_review(BROKEN, object=None), a_review(BROKEN, object=[]), a_review(BROKEN, object="x"),
])  # fmt: skip
def test_what_is_no_review_of_an_object_is_a_bad_review(body: bytes) -> None:
    with pytest.raises(BadReview):
        reviewed(body)


def test_levels_and_gates_come_from_the_settings() -> None:
    body = a_review(a_cluster().spec(tlsOptions={"enabled": True}).group(hosts=0).build())
    outcome = reviewed(body, RuleSettings({"num-of-hosts-invalid": WARN}, {"RayClusterMTLS": True}))
    assert outcome.answer.allowed
    assert len(outcome.answer.warnings) == 1


def test_settings_may_change_while_the_service_runs() -> None:
    handler = RayHandler()
    body = a_review(
        a_cluster().annotated("admission.ray.io/scheduling-group", "cluster").group().build()
    )
    said = []
    for served in (None, False, True):
        handler.settings = structs.replace(handler.settings, pod_groups=served)
        said.append(len(asyncio.run(ObjectReviewer(handler).review(body)).answer.warnings))
    assert said == [0, 1, 0]


@pytest.mark.parametrize("depth", [0, 3, 12])
@pytest.mark.parametrize("length", [10, 80, 110, 119, 130])
def test_a_warning_keeps_its_rule_and_gives_up_its_path_first(length: int, depth: int) -> None:
    field = Field({}) / "spec"
    for _ in range(depth):
        field = field / "rayClusterSpec"
    message = "m" * length
    (warning,) = render([Finding("a-rule", WARN, field, message, INVALID)]).warnings
    assert warning.endswith(" [a-rule]")
    assert (message in warning) is (length + len(" [a-rule]") <= WARNING_MAX)
    assert len(warning) <= WARNING_MAX


def test_a_warning_shortens_a_long_path_in_the_middle() -> None:
    field = Field({}) / "spec"
    for _ in range(12):
        field = field / "rayClusterSpec"
    (warning,) = render([Finding("a-rule", WARN, field / "replicas", "m", INVALID)]).warnings
    assert warning.startswith("spec….rayClusterSpec")
    assert warning.endswith(".rayClusterSpec.replicas: replicas: m [a-rule]")


@pytest.mark.parametrize("name", ["n" * 63, "a" * 30 + "-" + "b" * 200, "n" * 30])
def test_a_warning_shortens_long_names_before_its_advice(name: str) -> None:
    message = f"PersistentVolumeClaim {name} does not exist, unlike {name}: create it"
    finding = Finding("a-rule", WARN, Field({}) / "spec", message, INVALID)
    (warning,) = render([finding]).warnings
    assert warning.startswith(f"PersistentVolumeClaim {name[:11]}")
    assert warning.endswith(f"{name[-7:]}: create it [a-rule]")
    assert len(warning) <= WARNING_MAX


def test_a_denial_of_one_problem_says_who_refused_and_how_to_learn_more() -> None:
    assert response_to(a_review(BROKEN))["status"]["message"].splitlines() == [
        (
            'spec.workerGroupSpecs[0].numOfHosts: worker group "workers": numOfHosts is 0: '
            "write 1 to 4096 [num-of-hosts-invalid]"
        ),
        "refused by ray-webhook; explain: ray-webhook explain rule num-of-hosts-invalid",
    ]


def test_no_answer_grows_without_bound() -> None:
    value = a_cluster().build()
    value["spec"]["workerGroupSpecs"] = [{"groupName": "x", "template": {}}] * 5000
    answer = reviewed(a_review(value)).answer
    assert len(answer.causes) == CAUSES_MAX + 1
    assert answer.causes[-1].message.startswith("and ")


@pytest.mark.parametrize("name", ["two\nlines", "\\ud800", "\x1b[31m"])
def test_what_people_write_into_names_does_not_break_the_answer(name: str) -> None:
    annotation = json.dumps(
        {"groups": {name: {"max-cpu": 1, "max-memory": 1, "resize-timeout": 1}}}
    ).replace("\\\\u", "\\u")
    value = (
        a_cluster().annotated("ray.io/ippr", annotation).group(name, labels={name: "x y"}).build()
    )
    response = response_to(a_review(value))
    assert response["allowed"] is False
    assert (
        len(response["status"]["message"].splitlines())
        == len(response["status"]["details"]["causes"]) + 2
    )


def test_causes_keep_their_order() -> None:
    findings = [
        Finding("a-rule", DENY, Field({}) / "spec" / name, "text", INVALID) for name in ("b", "a")
    ]
    assert [cause.field for cause in render(findings).causes] == ["spec.b", "spec.a"]


OPERATOR = "system:serviceaccount:ray-system:kuberay-operator"


def owned(kind: str = "RayService", **fields: object) -> Json:
    """Return a RayCluster that a rule denies, and that another object controls."""
    built = a_cluster().group(hosts=0).build()
    owner = {"apiVersion": "ray.io/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
    built["metadata"]["ownerReferences"] = [{**owner, **fields}]
    return built


def asked_by(user: str, new: Json, old: Json | None = None) -> Json:
    """Return the response to the operator `OPERATOR` or somebody else."""
    body = a_review(new, old, userInfo={"username": user, "groups": ["a"]})
    known = RuleSettings(operators=frozenset({OPERATOR}))
    response: Json = json.loads(reviewed(body, known).body)["response"]
    return response


def owned_job() -> Json:
    value = a_job(a_cluster().group(hosts=0)).build()
    value["metadata"]["ownerReferences"] = owned("RayCronJob")["metadata"]["ownerReferences"]
    return value


@pytest.mark.parametrize("value", [owned("RayJob"), owned("RayService"), owned_job()])
def test_kuberay_is_only_warned_about_an_object_whose_owner_was_checked(value: Json) -> None:
    response = asked_by(OPERATOR, value)
    assert response["allowed"]
    assert any("numOfHosts" in text for text in response["warnings"])


@pytest.mark.parametrize(("user", "value"), [
    ("system:serviceaccount:team:kuberay-operator", owned()),
    ("", owned()), (OPERATOR, owned(controller=False)), (OPERATOR, owned("Deployment")),
    (OPERATOR, owned(apiVersion="example.com/v1")),
    (OPERATOR, a_cluster().group(hosts=0).build()),
])  # fmt: skip
def test_an_owner_alone_and_the_account_alone_soften_nothing(user: str, value: Json) -> None:
    assert not asked_by(user, value)["allowed"]


def test_an_update_by_kuberay_is_checked_as_any_update() -> None:
    assert not asked_by(OPERATOR, owned(), a_cluster().group(hosts=1).build())["allowed"]


def test_what_stops_kuberay_is_refused_whoever_asks() -> None:
    value = owned()
    value["spec"]["workerGroupSpecs"][0]["replicas"] = 10**10
    response = asked_by(OPERATOR, value)
    assert not response["allowed"]
    assert "value-not-decodable" in response["status"]["message"]


@pytest.mark.parametrize("request_fields", [{"uid": "x" * 64}, {"namespace": "x" * 64}])
def test_a_review_with_a_name_that_no_api_server_has_is_bad(request_fields: Json) -> None:
    with pytest.raises(BadReview, match="longer than 63"):
        reviewed(a_review(BROKEN, **request_fields))
