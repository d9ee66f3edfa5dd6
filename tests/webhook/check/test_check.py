"""`ray-webhook check` on a scene behind a socket, with every possible answer of an API server."""

import base64
import copy
import json
import re
from collections.abc import Callable

import pytest

from tests import ROOT
from tests.harness.running import At, Run, Write
from tests.harness.scenes import Object, Scene
from tests.harness.served import Server, identified
from tests.manifests.render import helm, installation, one
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.certs.issue import issue_authority
from webhook.cli.check import worker_of

Change = Callable[[Server], object]
Printed = Callable[..., tuple[int, str]]
Check = Callable[..., tuple[int, dict[str, str]]]
PODS = "/api/v1/namespaces/team/pods"
CLUSTERS = "/apis/ray.io/v1/namespaces/team/rayclusters"
VERSION = "/version"
OPERATORS = "/apis/apps/v1/deployments"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
REVIEWS = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
WITHIN = "/api/v1/namespaces/ray-webhook"
SETTINGS = f"{WITHIN}/configmaps/ray-webhook-settings"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/ray-webhook/endpointslices"
CHECKS = ROOT / "docs" / "troubleshooting.md"
DENIED = (
    'admission webhook "clusters.admission.ray.io" denied the request: '
    "spec.workerGroupSpecs[1].groupName: twice"
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray-webhook/leases"
LEASE = f"{LEASES}/ray-webhook-reservations-07"


def a_lease(**changes: str) -> Object:
    content = {"namespace": "team", "cluster": "c", "uid": "u", "group": "g", "block": 0}
    annotations = {names.ANNOTATION_RESERVATIONS: json.dumps(content | {"entries": {}})} | changes
    return {"metadata": {"name": LEASE.rpartition("/")[2], "annotations": annotations}}


@pytest.fixture(scope="module")
def bundle() -> str:
    return base64.b64encode(issue_authority("tests", 10).certificate).decode()


def installed(server: Server, bundle: str) -> None:
    configuration: Object = server.scene.webhooks[0]
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundle
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
        VERSION: {"gitVersion": "v1.37.0"}, "/apis/ray.io/v1": {}, "/apis/cert-manager.io/v1": {},
        OPERATORS: {"items": [operator]},
        VALIDATING: {"items": [{"metadata": {"name": "ray-webhook"}, "webhooks": [validating]}]},
        SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]},
        f"{WITHIN}/services/ray-webhook": {"spec": {"selector": {"app": "ray-webhook"}}},
        f"{WITHIN}/pods": {"items": [{"spec": {"serviceAccountName": "ray-webhook"}}]},
        REVIEWS: {"status": {"allowed": True}}, LEASES: {"items": [a_lease()]},
        f"POST {PODS}": server.scene.pods["llama-tpu-worker-0-3"]}  # fmt: skip
    server.denials[CLUSTERS] = {"code": 422, "message": DENIED}


@pytest.fixture
def printed(at: At, bundle: str) -> Printed:
    """Return the exit status and the output for an installation that works, and then changes."""

    def call(*arguments: str, change: Change = lambda _: None) -> tuple[int, str]:
        change = together(lambda server: installed(server, bundle), change)
        ended = at(Scene(), "check", *arguments, change=change)
        return ended.status, ended.out

    return call


@pytest.fixture
def check(printed: Printed) -> Check:
    """Return the exit status, and the verdict of each check; of several with one id, the worst."""

    def call(*arguments: str, change: Change = lambda _: None) -> tuple[int, dict[str, str]]:
        status, out = printed("-o", "json", *arguments, change=change)
        ranks = ["fine", "unknown", "warning", "error"]
        found: dict[str, str] = {}
        report = json.loads(out)
        assert report["right"] == (status == 0)
        for each in report["checks"]:
            found[each["id"]] = max(found.get(each["id"], "fine"), each["verdict"], key=ranks.index)
            assert f"### {each['id']}\n" in CHECKS.read_text()
            assert bool(each.get("remedy")) == (each["verdict"] != "fine")
        return status, found

    return call


def together(*changes: Change) -> Change:
    def change(server: Server) -> None:
        for each in changes:
            each(server)

    return change


def answering(path: str, body: Object) -> Change:
    return lambda server: server.answers.update({path: body})


def denying(path: str, code: int, message: str) -> Change:
    return lambda server: server.denials.update({path: {"code": code, "message": message}})


def withholding(resource: str) -> Change:
    return lambda server: server.withheld.add(resource)


def test_a_complete_installation_passes_every_check(check: Check) -> None:
    status, found = check()
    assert status == 0
    assert {name: verdict for name, verdict in found.items() if verdict != "fine"} == {}
    checks = CHECKS.read_text().partition("\n## Checks\n")[2]
    assert list(found) == re.findall(r"^### (.+)$", checks, re.MULTILINE)


def test_only_preconditions_are_checked_before_an_installation(check: Check) -> None:
    status, found = check("--pre")
    needs = ["kubernetes-version", "kuberay-served", "kuberay-version", "cert-manager"]
    assert (status, list(found)) == (0, needs)
    status, found = check("--pre", change=lambda server: server.answers.pop("/apis/ray.io/v1"))
    assert (status, found["kuberay-served"]) == (1, "error")


@pytest.mark.parametrize(("version", "verdict"), [
    ("v1.29.9", "error"), ("v1.30.0-gke.1", "fine"), ("v1.37+", "fine"), ("dev", "unknown"),
    ("v1." + "9" * 4301, "unknown"),
])  # fmt: skip
def test_kubernetes_has_to_be_new_enough(check: Check, version: str, verdict: str) -> None:
    _, found = check("--pre", change=answering(VERSION, {"gitVersion": version}))
    assert found["kubernetes-version"] == verdict


def operator_of(server: Server) -> Object:
    (found,) = server.answers[OPERATORS]["items"]
    result: Object = found
    return result


def test_no_tag_of_an_image_ends_the_check(check: Check) -> None:
    def tagged(server: Server) -> None:
        (container,) = operator_of(server)["spec"]["template"]["spec"]["containers"]
        container["image"] = "quay.io/kuberay/operator:v1." + "9" * 4301

    status, found = check("--pre", change=tagged)
    assert (status, found["kuberay-version"]) == (0, "fine")


def not_called(server: Server) -> None:
    server.denials.clear()
    server.answers[f"POST {PODS}"] = {"metadata": {"labels": {}}}


def with_bundle(value: str) -> Change:
    def change(server: Server) -> None:
        server.scene.webhooks[0]["webhooks"][0]["clientConfig"]["caBundle"] = value

    return change


def with_another(registered: str, **entry: object) -> Change:
    """Return a change that registers a second webhook; `entry`: its only one, else all of ours."""

    def change(server: Server) -> None:
        other = copy.deepcopy(server.scene.webhooks[0])
        other["metadata"]["name"] = registered
        if entry:
            other["webhooks"] = [other["webhooks"][0] | entry]
        server.scene.webhooks.append(other)

    return change


def with_reservations(content: str) -> Change:
    lease = a_lease(**{names.ANNOTATION_RESERVATIONS: content})
    return answering(LEASES, {"items": [lease]})


def without_rayclusters(server: Server) -> None:
    denial = 'admission webhook "pods.admission.ray.io" denied the request: there is no RayCluster'
    server.answers[CLUSTERS] = {"items": []}
    denying(PODS, 422, denial)(server)


FORBIDDEN = 'leases is forbidden: User "me" cannot create resource "leases"'
QUOTA = "leases is forbidden: exceeded quota: few, requested: count/leases=1"
POLICY = 'admission webhook "policy.example" denied the request: no Leases'
FAILED = 'Internal error: failed calling webhook "policy.example": timeout'
UNREADABLE = ("", "{", '{"format": 99}', "[]")
GOOGLE = {
    "name": "kuberay-tpu-webhook.default.svc",
    "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
}
GOOGLE_BY_SERVICE = {
    "name": "tpu.example.com",
    "objectSelector": {},
    "clientConfig": {"service": {"name": "kuberay-tpu-webhook", "namespace": "default"}},
}


@pytest.mark.parametrize(("change", "name", "verdict"), [
    (not_called, "dry-run-denied", "error"), (not_called, "dry-run-patched", "error"),
    (without_rayclusters, "dry-run-patched", "fine"),
    (with_bundle(""), "ca-bundle", "error"),
    (with_bundle("bm90IGEgY2VydGlmaWNhdGU="), "ca-bundle", "error"),
    (with_bundle("%"), "ca-bundle", "error"),
    (answering(SLICES, {"items": []}), "endpoints", "error"),
    (answering(OPERATORS, {"items": []}), "kuberay-version", "warning"),
    (lambda server: server.answers.pop("/apis/cert-manager.io/v1"), "cert-manager", "warning"),
    (denying(REVIEWS.partition(" ")[2], 403, FORBIDDEN), "rights", "unknown"),
    (denying(CLUSTERS, 403, FORBIDDEN), "dry-run-denied", "unknown"),
    (denying(CLUSTERS, 422, POLICY), "dry-run-denied", "unknown"),
    (denying(PODS, 422, DENIED.replace("clusters", "pods")), "dry-run-patched", "warning"),
    (answering(REVIEWS, {"status": {}}), "rights", "error"),
    (withholding("pods"), "rights", "error"),
    (withholding("rayclusters"), "rights", "error"),
    (withholding("leases"), "rights", "error"),
    (withholding("customresourcedefinitions"), "rights", "warning"),
    (denying(LEASE, 409, "the object has been modified"), "reservations", "fine"),
    *((with_reservations(text), "reservations", "error") for text in UNREADABLE),
    (with_another("ray-webhook-again"), "second-webhook", "error"),
    (with_another("kuberay-tpu-webhook", **GOOGLE), "second-webhook", "error"),
    (with_another("tpu", **GOOGLE_BY_SERVICE), "second-webhook", "error"),
    *((with_another("mesh", name="mesh.example.com", objectSelector={"matchExpressions": [
        {"key": "ray.io/node-type", "operator": operator}]}), "second-webhook", verdict)
      for operator, verdict in (("Exists", "error"), ("DoesNotExist", "fine"))),
    (lambda server: server.scene.webhooks.clear(), "registered", "error"),
])  # fmt: skip
def test_an_installation_is_checked(check: Check, change: Change, name: str, verdict: str) -> None:
    status, found = check(change=change)
    assert (status, found[name]) == (int(verdict == "error"), verdict)


@pytest.mark.parametrize(("arguments", "change", "text"), [
    (["--pre"], answering(VERSION, {"gitVersion": "v1.29.9"}), "upgrade to 1.30 or later"),
    ([], with_another("ray-webhook-again"),
     "this webhook is installed 2 times: ray-webhook, ray-webhook-again"),
    ([], lambda _: None, "no check failed, in all namespaces"),
    ([], lambda server: server.refused.add("/api/v1/pods"), "no check failed, in namespace team"),
    (["-n", "team"], lambda _: None, "no check failed, in namespace team"),
])  # fmt: skip
def test_releases_installations_and_namespaces_are_named(
    printed: Printed, arguments: list[str], change: Change, text: str
) -> None:
    status, out = printed(*arguments, change=change)
    assert (status == 0, text in " ".join(out.split())) == ("no check failed" in text, True)


@pytest.mark.manifests
@pytest.mark.parametrize(("values", "consequence"), [
    ("", "new workers that would hang without it are rejected, and other Ray pods are created"),
    ("mutating.failClosed=all", "new Ray pods are rejected"),
    ("mutating.failurePolicy=Ignore",
     "new Ray pods are created without it, and multi-host replicas hang"),
])  # fmt: skip
def test_without_a_process_that_answers_the_effect_on_pods_is_named(
    printed: Printed, values: str, consequence: str
) -> None:
    def change(server: Server) -> None:
        server.scene.webhooks[:] = [one(helm(values), "MutatingWebhookConfiguration")]
        server.answers[SLICES] = {"items": []}

    status, out = printed(change=change)
    assert status == 1
    text = f"no pod is ready behind service ray-webhook/ray-webhook: {consequence}"
    assert text in " ".join(out.split())
    assert "kubectl get pods -n ray-webhook; /readyz?verbose" in " ".join(out.split())


@pytest.mark.parametrize("path", [LEASES, LEASE])
@pytest.mark.parametrize(("code", "message", "verdict"), [
    (403, FORBIDDEN, "unknown"), (403, QUOTA, "error"), (400, POLICY, "error"),
    (500, FAILED, "error"),
])  # fmt: skip
def test_leases_are_checked(check: Check, path: str, code: int, message: str, verdict: str) -> None:
    status, found = check(change=denying(path, code, message))
    assert (status, found["reservations"]) == (int(verdict == "error"), verdict)


@pytest.mark.parametrize(("cause", "advice"), [
    ("context deadline exceeded", "NetworkPolicies and firewalls"),
    ("dial tcp 10.0.0.1:443: connect: connection refused", "no pod listens"),
    ("x509: certificate signed by unknown authority", "do not match"),
])  # fmt: skip
def test_a_failed_call_has_its_cause(printed: Printed, cause: str, advice: str) -> None:
    message = (
        'Internal error occurred: failed calling webhook "pods.admission.ray.io": Post '
        f'"https://x": {cause}'
    )
    status, out = printed(change=denying(PODS, 500, message))
    assert out.splitlines() == [line.rstrip() for line in out.splitlines()]
    assert status == 1
    assert "✗ the API server cannot call pods.admission.ray.io" in out
    assert advice in out


def test_a_check_without_the_right_for_it_is_unknown_and_no_failure(check: Check) -> None:
    def change(server: Server) -> None:
        server.refused |= {OPERATORS, VALIDATING, SLICES}
        denying(PODS, 403, 'pods is forbidden: User "me" cannot create resource "pods"')(server)

    status, found = check(change=change)
    unknown = {name for name, verdict in found.items() if verdict == "unknown"}
    assert unknown == {"kuberay-version", "registered", "endpoints", "dry-run-patched"}
    assert status == 0


@pytest.mark.manifests
def test_the_rights_of_the_manifests_are_checked_by_a_dry_run(printed: Printed) -> None:
    posted: list[tuple[str, Object]] = []

    def change(server: Server) -> None:
        server.posted = posted

    printed(change=change)
    dry_runs = dict.fromkeys((PODS, CLUSTERS, LEASES, LEASE), "dryRun=All")
    sent = {path.partition("?")[0]: path.partition("?")[2] for path, _ in posted}
    assert sent == dry_runs | {REVIEWS.removeprefix("POST "): ""}
    asked = {
        (each["group"], each["resource"], each["verb"], each.get("namespace"))
        for path, body in posted
        if path in REVIEWS
        for each in [body["spec"]["resourceAttributes"]]
    }
    granted = {
        (group, resource, verb, role["metadata"].get("namespace"))
        for role in installation("cert-manager")
        if "controller" not in role["metadata"]["name"]
        for rule in role.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert asked == granted


@pytest.mark.parametrize(("lacking", "status"), [("ray-webhook", 0), ("identities", 1)])
def test_rights_to_leases_follow_the_settings(printed: Printed, lacking: str, status: int) -> None:
    where = ("-o", "json", "--installation.namespace", "identities")
    found, out = printed(*where, change=withholding(f"leases in {lacking}"))
    texts = [each["text"] for each in json.loads(out)["checks"]]
    (said,) = [text for text in texts if "update leases in identities" in text]
    assert (found, "may not update" in said) == (status, bool(status))
    assert not [text for text in texts if "leases in ray-webhook" in text]


def elsewhere(server: Server) -> None:
    """Let there be a worker without its identity in another namespace."""
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
def test_one_or_all_namespaces_count(check: Check, arguments: tuple[str, ...], wanted: str) -> None:
    assert check(*arguments, change=elsewhere)[1]["identities"] == wanted


def test_it_can_wait_until_all_checks_pass(printed: Printed) -> None:
    def change(server: Server) -> None:
        slices, looked = server.answers.pop(SLICES), []

        def late(path: str) -> Object | None:
            looked.append(path)
            if path == SLICES and looked.count(SLICES) > 1:
                server.answers[SLICES] = slices
            return Server.found(server, path)

        server.found = late  # type: ignore[method-assign] # the server gets ready meanwhile

    status, out = printed("--wait", "1m", change=change)
    assert (status, "no check failed" in out) == (0, True)


def test_the_worker_that_is_sent_is_that_of_kuberay_without_an_identity() -> None:
    worker = worker_of(Scene().cluster)
    assert worker is not None
    labels = worker["metadata"]["labels"]
    assert (labels[names.LABEL_CLUSTER], labels[names.LABEL_GROUP]) == ("llama", "tpu")
    assert not set(names.IDENTITY_LABELS) & labels.keys()
    assert "blockOwnerDeletion" not in worker["metadata"]["ownerReferences"][0]


def test_no_worker_is_sent_for_an_ignored_raycluster() -> None:
    cluster = Scene().cluster
    cluster["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    assert worker_of(cluster) is None
    assert worker_of(cluster, ignoring=False) is not None


def configured(*texts: str) -> Change:
    """Return a change: the pod of the webhook mounts a ConfigMap with settings."""

    def change(server: Server) -> None:
        volume = {"name": "settings", "configMap": {"name": "ray-webhook-settings"}}
        server.answers[f"{WITHIN}/pods"]["items"][0]["spec"]["volumes"] = [volume]
        server.answers[SETTINGS] = {"data": {f"{n}.yaml": text for n, text in enumerate(texts)}}

    return change


def started_with(*arguments: str) -> Change:
    def change(server: Server) -> None:
        (container,) = operator_of(server)["spec"]["template"]["spec"]["containers"]
        container["args"] = list(arguments)

    return change


@pytest.mark.parametrize(("arguments", "text", "verdict"), [
    ([], "validation: {}", "fine"),
    ([], "validation: {gates: {RayClusterMTLS: false}}", "fine"),
    ([], "not: [yaml", "fine"),
    ([], "validation: {gates: {RayClusterMTLS: true}}", "warning"),
    (["--feature-gates=RayClusterMTLS=true"], "", "warning"),
    (["-feature-gates=Other=true,RayClusterMTLS=true"], "validation: []", "warning"),
    (["--feature-gates=RayClusterMTLS=true"], "validation: {gates: {RayClusterMTLS: true}}",
     "fine"),
])  # fmt: skip
def test_operator_gates_matter(check: Check, arguments: list[str], text: str, verdict: str) -> None:
    _, found = check(change=together(configured(text), started_with(*arguments)))
    assert found["feature-gates"] == verdict


def test_gates_of_two_operators_are_not_compared(printed: Printed) -> None:
    """It is unknown which of them manages a RayCluster."""

    def twice(server: Server) -> None:
        operators = server.answers[OPERATORS]
        operators["items"] *= 2

    assert "feature gates" in printed()[1]
    assert "feature gates" not in printed(change=twice)[1]


@pytest.mark.parametrize(("namespace", "texts", "verdict"), [
    ("ray-system", [""], "fine"), ("default", [""], "fine"), ("kuberay", [""], "warning"),
    ("kuberay", ["validation: {operators: [system:serviceaccount:kuberay:kuberay-operator]}"],
     "fine"),
    ("default", ["validation: {operators: []}"], "warning"),
    ("default", ["validation: {operators: 5}"], "fine"),
    ("ray-system", ["other: 1", "validation: []", "validation: {operators: [me]}"], "warning"),
])  # fmt: skip
def test_the_account_of_the_operator_is_compared_with_the_settings(
    check: Check, namespace: str, texts: list[str], verdict: str
) -> None:
    def moved(server: Server) -> None:
        operator_of(server)["metadata"]["namespace"] = namespace

    status, found = check(change=together(configured(*texts), moved))
    assert (status, found["operator-account"]) == (0, verdict)


ACCOUNT = "system:serviceaccount:ray-system:kuberay-operator"


@pytest.mark.parametrize(("text", "arguments", "said"), [
    ("validation: {operators: [me]}", [],
     [f"the operator runs as {ACCOUNT}, which validation.operators does not contain",
      f"set validation.operators to [me, {ACCOUNT}]"]),
    ("validation: {gates: {RayJobDeletionPolicy: false}}",
     ["--feature-gates=RayClusterMTLS=true,RayJobDeletionPolicy=false"],
     ["the operator runs with RayClusterMTLS=true, and the rules assume the opposite",
      "set validation.gates to {RayJobDeletionPolicy: false, RayClusterMTLS: true}"]),
])  # fmt: skip
def test_the_remedy_has_the_whole_value_of_the_setting(
    printed: Printed, text: str, arguments: list[str], said: list[str]
) -> None:
    _, out = printed(change=together(configured(text), started_with(*arguments)))
    assert all(each in " ".join(out.split()) for each in said)


def test_without_the_right_to_read_settings_they_are_unknown(check: Check) -> None:
    _, found = check(change=together(configured(""), lambda server: server.refused.add(SETTINGS)))
    assert (found["feature-gates"], found["operator-account"]) == ("unknown", "unknown")


def test_a_state_in_a_file_is_checked_without_a_cluster(at: At, run: Run, write: Write) -> None:
    scene = samples()["worker-id-differs"].scene()
    scene.webhooks += [samples()["second-webhook"].scene().webhooks[-1]]
    state = write(at(scene, "status", "-o", "state").out)
    ended = run("check", "--state", state, "-o", "json")
    found = json.loads(ended.out)
    assert (ended.status, found["scope"]) == (1, "the files")
    verdicts = {each["id"]: each["verdict"] for each in found["checks"]}
    assert verdicts == {"second-webhook": "error", "identities": "error"}
    ended = run("check", "--state", state, "-n", "other")
    last = "1 check failed, in namespace other of the files"
    assert (ended.status, last in ended.out) == (1, True)
    ended = run("check", "--state", state, "--pre")
    assert (ended.status, "leave out --pre and --wait" in ended.err) == (2, True)
