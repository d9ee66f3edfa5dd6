"""`ray-webhook check` on a scene behind a socket, with every possible answer of an API server."""

import base64
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.diagnostics.samples import samples
from tests.diagnostics.scenes import Object, Scene
from tests.diagnostics.served import Server, identified, serving
from tests.manifests.render import installation
from webhook.api import names
from webhook.certs.issue import issue_authority
from webhook.cli.check import worker_of
from webhook.cli.main import main

Capture = pytest.CaptureFixture[str]
PODS = "/api/v1/namespaces/team/pods"
CLUSTERS = "/apis/ray.io/v1/namespaces/team/rayclusters"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
WITHIN = "/api/v1/namespaces/ray-webhook"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ray-webhook/endpointslices"
CHECKS = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
DENIED = (
    'admission webhook "clusters.admission.ray.io" denied the request: '
    "spec.workerGroupSpecs[1].groupName: twice"
)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray-webhook/leases"
LEASE = f"{LEASES}/ray-webhook-reservations-07"


def a_lease(**changes: str) -> Object:
    """Return a Lease with reservations as the webhook writes it."""
    content = {"namespace": "team", "cluster": "c", "uid": "u", "group": "g", "block": 0}
    annotations = {names.ANNOTATION_RESERVATIONS: json.dumps(content | {"entries": {}})} | changes
    return {"metadata": {"name": LEASE.rpartition("/")[2], "annotations": annotations}}


@pytest.fixture(scope="module")
def bundle() -> str:
    return base64.b64encode(issue_authority("tests", 10).certificate).decode()


def installed(server: Server, bundle: str) -> None:
    """Let the server answer as one whose webhook works."""
    configuration: Object = server.scene.webhooks[0]
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundle
        webhook["failurePolicy"] = "Fail"  # the base has Ignore, until the webhook answers
    service = {"service": {"name": "ray-webhook", "namespace": "ray-webhook"}, "caBundle": bundle}
    validating = {
        "name": "clusters.admission.ray.io",
        "clientConfig": service,
        "failurePolicy": "Ignore",
    }
    image = "quay.io/kuberay/operator:v1.7.0"
    container = {"image": image, "args": ["--feature-gates=RayMultiHostIndexing=true"]}
    pod = {"serviceAccountName": "kuberay-operator", "containers": [container]}
    operator = {"metadata": {"namespace": "ray-system"}, "spec": {"template": {"spec": pod}}}
    server.answers |= {
        "/version": {"gitVersion": "v1.37.0"},
        "/apis/ray.io/v1": {},
        "/apis/cert-manager.io/v1": {},
        "/apis/apps/v1/deployments": {"items": [operator]},
        VALIDATING: {"items": [{"metadata": {"name": "ray-webhook"}, "webhooks": [validating]}]},
        SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]},
        f"{WITHIN}/services/ray-webhook": {"spec": {"selector": {"app": "ray-webhook"}}},
        f"{WITHIN}/pods": {"items": [{"spec": {"serviceAccountName": "ray-webhook"}}]},
        REVIEWS: {"status": {"allowed": True}},
        LEASES: {"items": [a_lease()]},
        f"POST {PODS}": server.scene.pods["llama-tpu-worker-0-3"],
    }
    server.denials[CLUSTERS] = {"code": 422, "message": DENIED}


def check(
    folder: Path,
    bundle: str,
    capsys: Capture,
    *arguments: str,
    **changes: Any,  # noqa: ANN401
) -> tuple[int, dict[str, str]]:
    """Return the exit status, and the verdict of each check; of several with one id, the worst."""
    scene = changes.pop("scene", None) or Scene()
    with serving(scene, folder) as (server, kubeconfig):
        installed(server, bundle)
        for change in changes.values():
            change(server)
        status = main(["check", "--kubeconfig", str(kubeconfig), "-o", "json", *arguments])
    ranks = ["fine", "unknown", "warning", "error"]
    found: dict[str, str] = {}
    report = json.loads(capsys.readouterr().out)
    assert report["right"] == (status == 0)
    for each in report["checks"]:
        found[each["id"]] = max(found.get(each["id"], "fine"), each["verdict"], key=ranks.index)
        assert f"### {each['id']}\n" in CHECKS.read_text()
        assert bool(each.get("remedy")) == (each["verdict"] != "fine")
    return status, found


def test_all_is_fine_where_all_is_installed(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    status, found = check(tmp_path, bundle, capsys)
    assert status == 0
    assert {name: verdict for name, verdict in found.items() if verdict != "fine"} == {}
    checks = CHECKS.read_text().partition("\n## Checks\n")[2]
    sections = re.findall(r"^### (.+)$", checks, re.MULTILINE)
    assert list(found) == sections


def test_only_what_is_needed_is_looked_at_before_an_installation(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    status, found = check(tmp_path, bundle, capsys, "--pre")
    assert status == 0
    assert list(found) == [
        "kubernetes-version",
        "kuberay-served",
        "kuberay-version",
        "cert-manager",
    ]


def test_without_kuberay_nothing_can_be_installed(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    status, found = check(
        tmp_path, bundle, capsys, "--pre", gone=lambda server: server.answers.pop("/apis/ray.io/v1")
    )
    assert (status, found["kuberay-served"]) == (1, "error")


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("v1.29.9", "error"),
        ("v1.30.0-gke.1", "fine"),
        ("v1.37+", "fine"),
        ("dev", "unknown"),
        ("v1." + "9" * 4301, "unknown"),
    ],
)
def test_kubernetes_has_to_be_new_enough(
    tmp_path: Path, bundle: str, capsys: Capture, version: str, verdict: str
) -> None:
    other = {"/version": {"gitVersion": version}}
    _, found = check(
        tmp_path, bundle, capsys, "--pre", old=lambda server: server.answers.update(other)
    )
    assert found["kubernetes-version"] == verdict


def test_no_tag_of_an_image_ends_the_check(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    def tagged(server: Server) -> None:
        (operator,) = server.answers["/apis/apps/v1/deployments"]["items"]
        (container,) = operator["spec"]["template"]["spec"]["containers"]
        container["image"] = "quay.io/kuberay/operator:v1." + "9" * 4301

    status, found = check(tmp_path, bundle, capsys, "--pre", odd=tagged)
    assert (status, found["kuberay-version"]) == (0, "fine")


def test_a_webhook_that_is_not_asked_is_found_out_by_the_dry_runs(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    bare: Object = {"metadata": {"labels": {}}}

    def deaf(server: Server) -> None:
        server.denials.clear()
        server.answers[f"POST {PODS}"] = bare

    status, found = check(tmp_path, bundle, capsys, deaf=deaf)
    assert status == 1
    assert (found["dry-run-denied"], found["dry-run-patched"]) == ("error", "error")


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        ("context deadline exceeded", "a NetworkPolicy or firewall"),
        ("dial tcp 10.0.0.1:443: connect: connection refused", "no pod listens"),
        ("x509: certificate signed by unknown authority", "do not fit"),
    ],
)
def test_a_call_that_fails_says_why(
    tmp_path: Path, bundle: str, capsys: Capture, cause: str, advice: str
) -> None:
    message = (
        'Internal error occurred: failed calling webhook "pods.admission.ray.io": Post '
        f'"https://x": {cause}'
    )
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        server.denials[PODS] = {"code": 500, "message": message}
        status = main(["check", "--kubeconfig", str(kubeconfig)])
    out = capsys.readouterr().out
    assert out.splitlines() == [line.rstrip() for line in out.splitlines()]
    assert status == 1
    assert "✗ the API server cannot call pods.admission.ray.io" in out
    assert advice in out


def test_what_may_not_be_asked_is_unknown_and_no_failure(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    def stranger(server: Server) -> None:
        server.refused |= {"/apis/apps/v1/deployments", VALIDATING, SLICES}
        server.denials[PODS] = {
            "code": 403,
            "message": 'pods is forbidden: User "me" cannot create resource "pods"',
        }

    status, found = check(tmp_path, bundle, capsys, stranger=stranger)
    assert status == 0
    unknown = {name for name, verdict in found.items() if verdict == "unknown"}
    assert unknown == {"kuberay-version", "registered", "endpoints", "dry-run-patched"}


@pytest.mark.parametrize("value", ["", "bm90IGEgY2VydGlmaWNhdGU=", "%"])
def test_a_bundle_has_to_hold_a_certificate(
    tmp_path: Path, bundle: str, capsys: Capture, value: str
) -> None:
    def without(server: Server) -> None:
        server.scene.webhooks[0]["webhooks"][0]["clientConfig"]["caBundle"] = value

    status, found = check(tmp_path, bundle, capsys, without=without)
    assert (status, found["ca-bundle"]) == (1, "error")


def test_an_installation_without_a_ready_pod_or_a_right_is_told(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    empty = {SLICES: {"items": []}, REVIEWS: {"status": {}}}
    status, found = check(
        tmp_path, bundle, capsys, empty=lambda server: server.answers.update(empty)
    )
    assert (status, found["endpoints"], found["rights"]) == (1, "error", "error")


def test_an_account_that_may_not_get_the_definition_of_rayclusters_is_told(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    def without(server: Server) -> None:
        server.withheld.add("customresourcedefinitions")

    status, found = check(tmp_path, bundle, capsys, without=without)
    assert (status, found["rights"]) == (0, "warning")


@pytest.mark.parametrize("resource", ["pods", "rayclusters", "leases"])
def test_an_account_that_lacks_a_right_without_which_no_pod_gets_a_seat_is_told(
    tmp_path: Path, bundle: str, capsys: Capture, resource: str
) -> None:
    status, found = check(
        tmp_path, bundle, capsys, without=lambda server: server.withheld.add(resource)
    )
    assert (status, found["rights"]) == (1, "error")


def test_every_right_of_the_manifests_is_asked_for(tmp_path: Path, bundle: str) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        main(["check", "--kubeconfig", str(kubeconfig)])
    asked = {
        (each["group"], each["resource"], each["verb"], each.get("namespace"))
        for path, body in server.posted
        if path in REVIEWS
        for each in [body["spec"]["resourceAttributes"]]
    }
    granted = {
        (group, resource, verb, role["metadata"].get("namespace"))
        for role in installation("cert-manager", "mutating.failurePolicy=Ignore")
        if "controller" not in role["metadata"]["name"]
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked == granted


@pytest.mark.parametrize(("lacking", "status"), [("ray-webhook", 0), ("seats", 1)])
def test_the_rights_to_leases_are_looked_for_where_the_settings_say(
    tmp_path: Path, bundle: str, capsys: Capture, lacking: str, status: int
) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        server.withheld.add(f"leases in {lacking}")
        where = ["--installation.namespace", "seats"]
        assert main(["check", "--kubeconfig", str(kubeconfig), "-o", "json", *where]) == status
    texts = [each["text"] for each in json.loads(capsys.readouterr().out)["checks"]]
    (said,) = [text for text in texts if "update leases in seats" in text]
    assert ("may not update" in said) == bool(status)
    assert not [text for text in texts if "leases in ray-webhook" in text]


@pytest.mark.parametrize("path", [LEASES, LEASE])
@pytest.mark.parametrize(
    ("denial", "verdict"),
    [
        (
            {
                "code": 403,
                "message": 'leases is forbidden: User "me" cannot create resource "leases"',
            },
            "unknown",
        ),
        (
            {
                "code": 403,
                "message": "leases is forbidden: exceeded quota: few, requested: count/leases=1",
            },
            "error",
        ),
        (
            {
                "code": 400,
                "message": 'admission webhook "policy.example" denied the request: no Leases',
            },
            "error",
        ),
        (
            {
                "code": 500,
                "message": 'Internal error: failed calling webhook "policy.example": timeout',
            },
            "error",
        ),
    ],
)
def test_a_lease_that_cannot_be_written_is_told(
    tmp_path: Path, bundle: str, capsys: Capture, path: str, denial: Object, verdict: str
) -> None:
    status, found = check(
        tmp_path, bundle, capsys, full=lambda server: server.denials.update({path: denial})
    )
    assert (status, found["reservations"]) == (int(verdict == "error"), verdict)


def test_a_lease_that_another_process_writes_at_the_same_time_can_be_written(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    denial = {LEASE: {"code": 409, "message": "the object has been modified"}}
    status, found = check(
        tmp_path, bundle, capsys, written=lambda server: server.denials.update(denial)
    )
    assert (status, found["reservations"]) == (0, "fine")


@pytest.mark.parametrize("content", ["", "{", '{"format": 99}', "[]"])
def test_a_lease_whose_content_cannot_be_read_is_told(
    tmp_path: Path, bundle: str, capsys: Capture, content: str
) -> None:
    spoiled = {LEASES: {"items": [a_lease(**{names.ANNOTATION_RESERVATIONS: content})]}}
    status, found = check(
        tmp_path, bundle, capsys, spoiled=lambda server: server.answers.update(spoiled)
    )
    assert (status, found["reservations"]) == (1, "error")


def test_this_webhook_installed_twice_is_told(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    def twice(server: Server) -> None:
        other = copy.deepcopy(server.scene.webhooks[0])
        other["metadata"]["name"] = "ray-webhook-again"
        server.scene.webhooks.append(other)

    status, found = check(tmp_path, bundle, capsys, twice=twice)
    assert (status, found["second-webhook"]) == (1, "error")


def test_the_webhook_of_another_is_told(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    def another(server: Server) -> None:
        other = copy.deepcopy(server.scene.webhooks[0])
        other["metadata"]["name"] = "kuberay-tpu-webhook"
        other["webhooks"][0] |= {
            "name": "kuberay-tpu-webhook.default.svc",
            "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
        }
        del other["webhooks"][1:]
        server.scene.webhooks.append(other)

    status, found = check(tmp_path, bundle, capsys, another=another)
    assert (status, found["second-webhook"]) == (1, "error")


def test_a_webhook_that_is_not_registered_is_told(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    status, found = check(
        tmp_path, bundle, capsys, none=lambda server: server.scene.webhooks.clear()
    )
    assert (status, found["registered"]) == (1, "error")


@pytest.mark.parametrize("name", ["pods.admission.ray.io", "shards.admission.ray.io"])
def test_a_policy_of_ignore_is_a_warning(
    tmp_path: Path, bundle: str, capsys: Capture, name: str
) -> None:
    def ignore(server: Server) -> None:
        (webhook,) = (each for each in server.scene.webhooks[0]["webhooks"] if each["name"] == name)
        webhook["failurePolicy"] = "Ignore"

    status, found = check(tmp_path, bundle, capsys, ignore=ignore)
    assert (status, found["failure-policy"]) == (0, "warning")


def test_seats_that_are_wrong_are_told(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    scene = Scene().changed("llama-tpu-worker-0-3", spec={"hostname": "other"})
    status, found = check(tmp_path, bundle, capsys, scene=scene)
    assert (status, found["seats"]) == (1, "error")


def elsewhere(server: Server) -> None:
    """Let there be a worker without its seat in another namespace."""
    wrong = copy.deepcopy(server.scene)
    wrong.changed("llama-tpu-worker-0-3", spec={"hostname": "other"})
    for path, objects in {
        "/apis/ray.io/v1/rayclusters": [wrong.cluster],
        "/api/v1/pods": list(wrong.pods.values()),
    }.items():
        text = json.dumps([identified(each) for each in objects])
        moved = json.loads(text.replace('"team"', '"other"'))
        server.answers[path] = {"metadata": {"resourceVersion": "1"}, "items": moved}


@pytest.mark.parametrize(("arguments", "wanted"), [((), "error"), (("-n", "team"), "fine")])
def test_workers_of_all_namespaces_are_looked_at_unless_one_is_named(
    tmp_path: Path, bundle: str, capsys: Capture, arguments: tuple[str, ...], wanted: str
) -> None:
    _, found = check(tmp_path, bundle, capsys, *arguments, elsewhere=elsewhere)
    assert found["seats"] == wanted


@pytest.mark.parametrize(
    ("arguments", "refused", "said"),
    [
        ((), False, "nothing is wrong in all namespaces"),
        ((), True, "nothing is wrong in namespace team"),
        (("-n", "team"), False, "nothing is wrong in namespace team"),
    ],
)
def test_the_last_line_says_which_namespaces_were_looked_at(
    tmp_path: Path,
    bundle: str,
    capsys: Capture,
    arguments: tuple[str, ...],
    said: str,
    *,
    refused: bool,
) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        if refused:
            server.refused.add("/api/v1/pods")
        assert main(["check", "--kubeconfig", str(kubeconfig), *arguments]) == 0
    assert said in capsys.readouterr().out


def test_where_there_is_no_raycluster_a_worker_of_none_has_to_be_denied(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    denial = 'admission webhook "pods.admission.ray.io" denied the request: there is no RayCluster'

    def none(server: Server) -> None:
        server.answers[CLUSTERS] = {"items": []}
        server.denials[PODS] = {"code": 422, "message": denial}

    status, found = check(tmp_path, bundle, capsys, none=none)
    assert (status, found["dry-run-patched"]) == (0, "fine")


def test_everything_is_sent_in_a_dry_run(tmp_path: Path, bundle: str) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        main(["check", "--kubeconfig", str(kubeconfig)])
    sent = {path.partition("?")[0]: path.partition("?")[2] for path, _ in server.posted}
    dry = "dryRun=All"
    assert sent == {
        PODS: dry,
        CLUSTERS: dry,
        LEASES: dry,
        f"{LEASES}/ray-webhook-reservations-07": dry,
        REVIEWS.removeprefix("POST "): "",
    }


def test_it_can_wait_until_all_is_right(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        slices = server.answers.pop(SLICES)
        looked = []

        def late(path: str) -> Object | None:
            looked.append(path)
            if path == SLICES and looked.count(SLICES) > 1:
                server.answers[SLICES] = slices
            return Server.found(server, path)

        server.found = late  # type: ignore[method-assign] # the server gets ready while it is waited for
        status = main(["check", "--kubeconfig", str(kubeconfig), "--wait", "1m"])
    assert status == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_the_worker_that_is_sent_is_that_of_kuberay_without_a_seat() -> None:
    worker = worker_of(Scene().cluster)
    assert worker is not None
    labels = worker["metadata"]["labels"]
    assert (labels[names.LABEL_CLUSTER], labels[names.LABEL_GROUP]) == ("llama", "tpu")
    assert not set(names.SEAT_LABELS) & labels.keys()
    assert "blockOwnerDeletion" not in worker["metadata"]["ownerReferences"][0]


def test_no_worker_is_sent_for_a_raycluster_that_is_left_alone() -> None:
    cluster = Scene().cluster
    cluster["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    assert worker_of(cluster) is None
    assert worker_of(cluster, ignoring=False) is not None


@pytest.mark.parametrize("text", ["soon", "9" * 400])
def test_a_time_that_is_none_is_told(text: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--wait", text])
    assert f"{text!r} is not a time: write 90s, 2m or 1h" in capsys.readouterr().err


def configured(server: Server, text: str) -> None:
    volume = {"name": "settings", "configMap": {"name": "ray-webhook-settings"}}
    server.answers[f"{WITHIN}/pods"]["items"][0]["spec"]["volumes"] = [volume]
    path = f"{WITHIN}/configmaps/ray-webhook-settings"
    server.answers[path] = {"data": {"settings.yaml": text}}


def started_with(server: Server, *arguments: str) -> None:
    (operator,) = server.answers["/apis/apps/v1/deployments"]["items"]
    operator["spec"]["template"]["spec"]["containers"][0]["args"] = list(arguments)


@pytest.mark.parametrize(
    ("arguments", "text", "verdict"),
    [
        ([], "validation: {}", "fine"),
        ([], "validation: {gates: {RayClusterMTLS: false}}", "fine"),
        ([], "not: [yaml", "fine"),
        ([], "validation: {gates: {RayClusterMTLS: true}}", "warning"),
        (["--feature-gates=RayClusterMTLS=true"], "", "warning"),
        (["-feature-gates=Other=true,RayClusterMTLS=true"], "validation: []", "warning"),
        (["--feature-gates=RayClusterMTLS=true"], "validation: {gates: {RayClusterMTLS: true}}",
         "fine"),
    ],
)  # fmt: skip
def test_the_gates_of_the_operator_are_compared_with_the_settings(
    tmp_path: Path, bundle: str, capsys: Capture, arguments: list[str], text: str, verdict: str
) -> None:
    def change(server: Server) -> None:
        configured(server, text)
        started_with(server, *arguments)

    _, found = check(tmp_path, bundle, capsys, change=change)
    assert found["feature-gates"] == verdict


@pytest.mark.parametrize(
    ("namespace", "text", "verdict"),
    [
        ("ray-system", "", "fine"),
        ("default", "", "fine"),
        ("kuberay", "", "warning"),
        ("kuberay", "validation: {operators: [system:serviceaccount:kuberay:kuberay-operator]}",
         "fine"),
        ("default", "validation: {operators: []}", "warning"),
        ("default", "validation: {operators: 5}", "fine"),
    ],
)  # fmt: skip
def test_the_account_of_the_operator_is_compared_with_the_settings(
    tmp_path: Path, bundle: str, capsys: Capture, namespace: str, text: str, verdict: str
) -> None:
    def change(server: Server) -> None:
        configured(server, text)
        server.answers["/apis/apps/v1/deployments"]["items"][0]["metadata"]["namespace"] = namespace

    status, found = check(tmp_path, bundle, capsys, change=change)
    assert (status, found["operator-account"]) == (0, verdict)


def test_settings_are_found_beside_other_files(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    def change(server: Server) -> None:
        configured(server, "")
        path = f"{WITHIN}/configmaps/ray-webhook-settings"
        texts = ("other: 1", "validation: []", "validation: {operators: [me]}")
        server.answers[path] = {"data": dict(zip("abc", texts, strict=True))}

    _, found = check(tmp_path, bundle, capsys, change=change)
    assert found["operator-account"] == "warning"


def test_the_account_to_add_is_said(tmp_path: Path, bundle: str, capsys: Capture) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        configured(server, "validation: {operators: [me]}")
        main(["check", "--kubeconfig", str(kubeconfig)])
    out = " ".join(capsys.readouterr().out.split())
    account = "system:serviceaccount:ray-system:kuberay-operator"
    assert f"the operator runs as {account}, which validation.operators does not contain" in out
    assert f"set validation.operators to [me, {account}]" in out


def test_what_the_setting_has_to_be_is_said_whole(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        installed(server, bundle)
        configured(server, "validation: {gates: {RayJobDeletionPolicy: false}}")
        started_with(server, "--feature-gates=RayClusterMTLS=true,RayJobDeletionPolicy=false")
        main(["check", "--kubeconfig", str(kubeconfig)])
    out = " ".join(capsys.readouterr().out.split())
    assert "the operator runs with RayClusterMTLS=true, and the rules assume the opposite" in out
    assert "set validation.gates to {RayJobDeletionPolicy: false, RayClusterMTLS: true}" in out


def test_settings_that_may_not_be_read_leave_the_gates_unknown(
    tmp_path: Path, bundle: str, capsys: Capture
) -> None:
    def change(server: Server) -> None:
        configured(server, "")
        server.refused.add(f"{WITHIN}/configmaps/ray-webhook-settings")

    _, found = check(tmp_path, bundle, capsys, change=change)
    assert (found["feature-gates"], found["operator-account"]) == ("unknown", "unknown")


def test_a_state_in_a_file_is_checked_without_a_cluster(tmp_path: Path, capsys: Capture) -> None:
    scene = samples()["worker-id-differs"].scene()
    scene.webhooks += [samples()["second-webhook"].scene().webhooks[-1]]
    with serving(scene, tmp_path) as (_, config):
        main(["status", "--kubeconfig", str(config), "-o", "state"])
    state = tmp_path / "state.json"
    state.write_text(capsys.readouterr().out)
    assert main(["check", "--state", str(state), "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["scope"] == "the files"
    assert {each["id"]: each["verdict"] for each in found["checks"]} == {
        "second-webhook": "error",
        "seats": "error",
    }
    assert main(["check", "--state", str(state), "-n", "other"]) == 1
    assert "1 of the checks failed in namespace other of the files" in capsys.readouterr().out
    assert main(["check", "--state", str(state), "--pre"]) == 2
    assert "leave out --pre and --wait" in capsys.readouterr().err
    assert main(["check", "--state", str(tmp_path / "none")]) == 2
