"""`ray-webhook check` on a scene behind a socket, with every possible answer of an API server."""

import base64
import copy
import json
import re
from collections.abc import Callable
from pathlib import Path

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
Change = Callable[[Server], object]
"""Changes the answers of a server on which all is well."""
Check = Callable[..., tuple[int, dict[str, str]]]
Printed = Callable[..., tuple[int, str]]
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


SETTINGS = f"{WITHIN}/configmaps/ray-webhook-settings"
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


@pytest.fixture
def printed(tmp_path: Path, bundle: str, capsys: Capture) -> Printed:
    """Run `check` after a change of the server, and return the exit status and what it prints."""

    def run(*arguments: str, change: Change = lambda _: None) -> tuple[int, str]:
        with serving(Scene(), tmp_path) as (server, kubeconfig):
            installed(server, bundle)
            change(server)
            status = main(["check", "--kubeconfig", str(kubeconfig), *arguments])
        return status, capsys.readouterr().out

    return run


@pytest.fixture
def check(printed: Printed) -> Check:
    """Run `check`, and return the exit status, and the verdict of each check; of several with one
    id, the worst.
    """

    def run(*arguments: str, change: Change = lambda _: None) -> tuple[int, dict[str, str]]:
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

    return run


def test_all_is_fine_where_all_is_installed(check: Check) -> None:
    status, found = check()
    assert status == 0
    assert {name: verdict for name, verdict in found.items() if verdict != "fine"} == {}
    checks = CHECKS.read_text().partition("\n## Checks\n")[2]
    sections = re.findall(r"^### (.+)$", checks, re.MULTILINE)
    assert list(found) == sections


def test_only_what_is_needed_is_looked_at_before_an_installation(check: Check) -> None:
    status, found = check("--pre")
    assert status == 0
    assert list(found) == [
        "kubernetes-version",
        "kuberay-served",
        "kuberay-version",
        "cert-manager",
    ]


def answering(path: str, body: Object) -> Change:
    return lambda server: server.answers.update({path: body})


def denying(path: str, code: int, message: str) -> Change:
    return lambda server: server.denials.update({path: {"code": code, "message": message}})


def withholding(resource: str) -> Change:
    return lambda server: server.withheld.add(resource)


def with_bundle(value: str) -> Change:
    def change(server: Server) -> None:
        server.scene.webhooks[0]["webhooks"][0]["clientConfig"]["caBundle"] = value

    return change


def with_policy_of_ignore(name: str) -> Change:
    def change(server: Server) -> None:
        (webhook,) = (each for each in server.scene.webhooks[0]["webhooks"] if each["name"] == name)
        webhook["failurePolicy"] = "Ignore"

    return change


def with_a_configuration(name: str, /, **webhook: object) -> Change:
    """Add a copy of the configuration, or its first webhook with other fields."""

    def change(server: Server) -> None:
        other = copy.deepcopy(server.scene.webhooks[0])
        other["metadata"]["name"] = name
        if webhook:
            other["webhooks"] = [other["webhooks"][0] | webhook]
        server.scene.webhooks.append(other)

    return change


def operator_of(server: Server) -> Object:
    (operator,) = server.answers["/apis/apps/v1/deployments"]["items"]
    result: Object = operator
    return result


def with_an_odd_tag(server: Server) -> None:
    (container,) = operator_of(server)["spec"]["template"]["spec"]["containers"]
    container["image"] = f"quay.io/kuberay/operator:v1.{'9' * 4301}"


def with_settings(text: str, *arguments: str, namespace: str = "ray-system") -> Change:
    """Let the webhook have settings, and the operator arguments and a namespace."""

    def change(server: Server) -> None:
        configured(server, text)
        operator = operator_of(server)
        operator["metadata"]["namespace"] = namespace
        operator["spec"]["template"]["spec"]["containers"][0]["args"] = list(arguments)

    return change


def configured(server: Server, *texts: str) -> None:
    volume = {"name": "settings", "configMap": {"name": "ray-webhook-settings"}}
    server.answers[f"{WITHIN}/pods"]["items"][0]["spec"]["volumes"] = [volume]
    server.answers[SETTINGS] = {
        "data": {f"{number}.yaml": text for number, text in enumerate(texts)}
    }


def with_settings_beside_other_files(server: Server) -> None:
    configured(server, "other: 1", "validation: []", "validation: {operators: [me]}")


def with_secret_settings(server: Server) -> None:
    configured(server, "")
    server.refused.add(SETTINGS)


def without_rayclusters(server: Server) -> None:
    denial = 'admission webhook "pods.admission.ray.io" denied the request: there is no RayCluster'
    server.answers[CLUSTERS] = {"items": []}
    server.denials[PODS] = {"code": 422, "message": denial}


def with_a_lease(text: str) -> Change:
    """Let there be a Lease with a text in place of reservations."""
    return answering(LEASES, {"items": [a_lease(**{names.ANNOTATION_RESERVATIONS: text})]})


REFUSALS = [
    ("unknown", 403, 'leases is forbidden: User "me" cannot create resource "leases"'),
    ("error", 403, "leases is forbidden: exceeded quota: few, requested: count/leases=1"),
    ("error", 400, 'admission webhook "policy.example" denied the request: no Leases'),
    ("error", 500, 'Internal error: failed calling webhook "policy.example": timeout'),
]
MTLS = "--feature-gates=RayClusterMTLS=true"
ACCOUNT = "system:serviceaccount:kuberay:kuberay-operator"


@pytest.mark.parametrize(
    ("name", "verdict", "change"),
    [
        ("kuberay-served", "error", lambda server: server.answers.pop("/apis/ray.io/v1")),
        ("kubernetes-version", "error", answering("/version", {"gitVersion": "v1.29.9"})),
        ("kubernetes-version", "fine", answering("/version", {"gitVersion": "v1.30.0-gke.1"})),
        ("kubernetes-version", "fine", answering("/version", {"gitVersion": "v1.37+"})),
        ("kubernetes-version", "unknown", answering("/version", {"gitVersion": "dev"})),
        (
            "kubernetes-version",
            "unknown",
            answering("/version", {"gitVersion": f"v1.{'9' * 4301}"}),
        ),
        ("kuberay-version", "fine", with_an_odd_tag),
        ("ca-bundle", "error", with_bundle("")),
        ("ca-bundle", "error", with_bundle("bm90IGEgY2VydGlmaWNhdGU=")),
        ("ca-bundle", "error", with_bundle("%")),
        ("endpoints", "error", answering(SLICES, {"items": []})),
        ("rights", "error", answering(REVIEWS, {"status": {}})),
        ("rights", "warning", withholding("customresourcedefinitions")),
        ("rights", "error", withholding("pods")),
        ("rights", "error", withholding("rayclusters")),
        ("rights", "error", withholding("leases")),
        ("reservations", "fine", denying(LEASE, 409, "the object has been modified")),
        ("second-webhook", "error", with_a_configuration("ray-webhook-again")),
        (
            "second-webhook",
            "error",
            with_a_configuration(
                "kuberay-tpu-webhook",
                name="kuberay-tpu-webhook.default.svc",
                objectSelector={"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
            ),
        ),
        ("registered", "error", lambda server: server.scene.webhooks.clear()),
        ("failure-policy", "warning", with_policy_of_ignore("pods.admission.ray.io")),
        ("failure-policy", "warning", with_policy_of_ignore("shards.admission.ray.io")),
        (
            "seats",
            "error",
            lambda server: server.scene.changed("llama-tpu-worker-0-3", spec={"hostname": "other"}),
        ),
        ("dry-run-patched", "fine", without_rayclusters),
        ("feature-gates", "fine", with_settings("validation: {}")),
        ("feature-gates", "fine", with_settings("validation: {gates: {RayClusterMTLS: false}}")),
        ("feature-gates", "fine", with_settings("not: [yaml")),
        ("feature-gates", "warning", with_settings("validation: {gates: {RayClusterMTLS: true}}")),
        ("feature-gates", "warning", with_settings("", MTLS)),
        (
            "feature-gates",
            "warning",
            with_settings("validation: []", "-feature-gates=Other=true,RayClusterMTLS=true"),
        ),
        (
            "feature-gates",
            "fine",
            with_settings("validation: {gates: {RayClusterMTLS: true}}", MTLS),
        ),
        ("feature-gates", "unknown", with_secret_settings),
        ("operator-account", "unknown", with_secret_settings),
        ("operator-account", "fine", with_settings("", namespace="ray-system")),
        ("operator-account", "fine", with_settings("", namespace="default")),
        ("operator-account", "warning", with_settings("", namespace="kuberay")),
        (
            "operator-account",
            "fine",
            with_settings(f"validation: {{operators: [{ACCOUNT}]}}", namespace="kuberay"),
        ),
        ("operator-account", "warning", with_settings("validation: {operators: []}")),
        ("operator-account", "fine", with_settings("validation: {operators: 5}")),
        ("operator-account", "warning", with_settings_beside_other_files),
        *(
            ("reservations", verdict, denying(path, code, message))
            for path in (LEASES, LEASE)
            for verdict, code, message in REFUSALS
        ),
        *(
            ("reservations", "error", with_a_lease(text))
            for text in ("", "{", '{"format": 99}', "[]")
        ),
    ],
)
def test_a_check_has_a_verdict(check: Check, name: str, verdict: str, change: Change) -> None:
    status, found = check(change=change)
    assert (status, found[name]) == (int(verdict == "error"), verdict)


def test_a_webhook_that_is_not_asked_is_found_out_by_the_dry_runs(check: Check) -> None:
    def deaf(server: Server) -> None:
        server.denials.clear()
        server.answers[f"POST {PODS}"] = {"metadata": {"labels": {}}}

    status, found = check(change=deaf)
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
def test_a_call_that_fails_says_why(printed: Printed, cause: str, advice: str) -> None:
    message = (
        'Internal error occurred: failed calling webhook "pods.admission.ray.io": Post '
        f'"https://x": {cause}'
    )
    status, out = printed(change=denying(PODS, 500, message))
    assert out.splitlines() == [line.rstrip() for line in out.splitlines()]
    assert status == 1
    assert "✗ the API server cannot call pods.admission.ray.io" in out
    assert advice in out


def test_what_may_not_be_asked_is_unknown_and_no_failure(check: Check) -> None:
    def stranger(server: Server) -> None:
        server.refused |= {"/apis/apps/v1/deployments", VALIDATING, SLICES}
        message = 'pods is forbidden: User "me" cannot create resource "pods"'
        server.denials[PODS] = {"code": 403, "message": message}

    status, found = check(change=stranger)
    assert status == 0
    unknown = {name for name, verdict in found.items() if verdict == "unknown"}
    assert unknown == {"kuberay-version", "registered", "endpoints", "dry-run-patched"}


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
    printed: Printed, lacking: str, status: int
) -> None:
    where = ["--installation.namespace", "seats", "-o", "json"]
    found = printed(*where, change=withholding(f"leases in {lacking}"))
    assert found[0] == status
    texts = [each["text"] for each in json.loads(found[1])["checks"]]
    (said,) = [text for text in texts if "update leases in seats" in text]
    assert ("may not update" in said) == bool(status)
    assert not [text for text in texts if "leases in ray-webhook" in text]


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
    check: Check, arguments: tuple[str, ...], wanted: str
) -> None:
    assert check(*arguments, change=elsewhere)[1]["seats"] == wanted


@pytest.mark.parametrize(
    ("arguments", "refused", "said"),
    [
        ((), [], "nothing is wrong in all namespaces"),
        ((), ["/api/v1/pods"], "nothing is wrong in namespace team"),
        (("-n", "team"), [], "nothing is wrong in namespace team"),
    ],
)
def test_the_last_line_says_which_namespaces_were_looked_at(
    printed: Printed, arguments: tuple[str, ...], refused: list[str], said: str
) -> None:
    status, out = printed(*arguments, change=lambda server: server.refused.update(refused))
    assert status == 0
    assert said in out


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


def test_the_account_to_add_is_said(printed: Printed) -> None:
    _, text = printed(change=with_settings("validation: {operators: [me]}"))
    out = " ".join(text.split())
    account = "system:serviceaccount:ray-system:kuberay-operator"
    assert f"the operator runs as {account}, which validation.operators does not contain" in out
    assert f"set validation.operators to [me, {account}]" in out


def test_what_the_setting_has_to_be_is_said_whole(printed: Printed) -> None:
    gates = "--feature-gates=RayClusterMTLS=true,RayJobDeletionPolicy=false"
    settings = "validation: {gates: {RayJobDeletionPolicy: false}}"
    out = " ".join(printed(change=with_settings(settings, gates))[1].split())
    assert "the operator runs with RayClusterMTLS=true, and the rules assume the opposite" in out
    assert "set validation.gates to {RayJobDeletionPolicy: false, RayClusterMTLS: true}" in out


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
