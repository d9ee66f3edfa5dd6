"""Images that kubelets parse, and commands of Ray's container that keep it from running."""

import subprocess
from functools import partial

import pytest

from tests.harness.ray_objects import (
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
    found,
    rules,
)
from tests.harness.work import RATIO_MAX, seconds

IMAGE_INVALID = "image-reference-invalid"
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(("image", "advice"), [
    ("<ACCOUNT>.dkr.ecr.us-east-1.amazonaws.com/ray:1", "replace <ACCOUNT>"),
    ("ray:{{ .Values.tag }}", "replace {{ .Values.tag }}"),
    ("rayproject/ray: 2.55.1", "remove the spaces"),
    ("rayproject/Ray:2.55.1", "write the path in lower case"),
    ("ghcr.io/MyOrg/ray:1", "write the path in lower case"),
    ("https://ghcr.io/org/ray:1", "remove https://"),
    ("docker://org/ray", "remove docker://"), ("rayproject/ray:2.55.1:gpu", "keep one tag"),
    ("rayproject/ray:", "add the tag, or remove the colon"),
    ("rayproject/ray@sha256:abc", "64 hexadecimal digits"),
    ("rayproject/ray@" + DIGEST.upper().replace("SHA", "sha"), "64 hexadecimal digits"),
    ("rayproject//ray", "write HOST/PATH:TAG"),
    ("rayproject/ray:" + "a" * 129, "write HOST/PATH:TAG"),
    ("/ray", "write HOST/PATH:TAG"), ("a/" * 127 + "ab", "write HOST/PATH:TAG"),
    ("ray:$TAG", "the placeholder $TAG: replace it"),
    ("ray:${TAG}", "the placeholder ${TAG}: replace it"),
])  # fmt: skip
def test_an_image_that_no_kubelet_parses(image: str, advice: str) -> None:
    (finding,) = findings(a_cluster().group().container(image=image))
    assert finding.rule == ("placeholder-unresolved" if "$" in image else IMAGE_INVALID)
    assert finding.message.endswith(advice)


@pytest.mark.parametrize("image", [
    "ray", "rayproject/ray:2.55.1-py310-gpu", "localhost:5000/a/b_c__d-e.f:V1.0_RC", "MyHost/ray:1",
    "REGISTRY.example.com/team/ray:Latest", "[::1]:5000/ray", f"rayproject/ray@{DIGEST}",
    f"rayproject/ray:2.55.1@{DIGEST}", "a--b/c", "10.0.0.1/ray", "a/" * 127 + "a",
])  # fmt: skip
def test_an_image_that_kubelets_parse(image: str) -> None:
    assert found(a_cluster().group().container(image=image)) == set()


def test_every_place_of_an_image() -> None:
    wrong = {"name": "c", "image": "<IMAGE>"}
    head = "headGroupSpec.template.spec"
    cluster = a_cluster().group()
    cluster.head_pod(initContainers=[wrong])
    assert found(cluster) == {(IMAGE_INVALID, f"spec.{head}.initContainers[0].image")}
    assert found(a_service(cluster)) == {
        (IMAGE_INVALID, f"spec.rayClusterConfig.{head}.initContainers[0].image")
    }
    scaled = a_cluster().autoscaled(image="<IMAGE>").group()
    assert found(scaled) == {(IMAGE_INVALID, "spec.autoscalerOptions.image")}
    inits = [{**wrong, "name": "i"}]
    pod = {"restartPolicy": "Never", "containers": [wrong], "initContainers": inits}
    job = a_job().spec(submitterPodTemplate={"spec": pod})
    template = "submitterPodTemplate.spec"
    assert found(a_cron_job(job)) == {
        (IMAGE_INVALID, f"spec.jobTemplate.{template}.{name}[0].image")
        for name in ("containers", "initContainers")
    }


NESTED, ENDLESS, SYNTAX = (
    "ray-command-nested-shell", "ray-command-never-ends", "ray-command-syntax",
)  # fmt: skip
OVERWRITE = "ray.io/overwrite-container-cmd"


def command_rules(command: list[str], args: list[str] | None = None) -> set[str]:
    return rules(a_cluster().group().container(command=command, args=args or []))


@pytest.mark.parametrize("command", [
    ["sh", "-c", "pip install x && echo done"], ["/bin/bash", "-lc", "--", "pip install x"],
    ["bash", "-e", "-c", "source /venv/bin/activate; pip list"],
    ["/bin/bash -c", "pip install x"], ["env", "A=1", "bash", "-c", "cd /app && x"],
    ["python", "-c", "import x; x.y"], ["python3.11", "-u", "-c", "import x"],
])  # fmt: skip
def test_a_program_that_loses_its_quotes(command: list[str]) -> None:
    assert command_rules(command) == {NESTED}
    assert command_rules(command[:1], command[1:]) == {NESTED}


@pytest.mark.parametrize("command", [
    ["pip install x && echo done"], ["bash", "/setup.sh"], ["bash", "-c", "/setup.sh"],
    ["bash", "-c", "set -ex; pip install x"], ["sh", "-c", "echo a b; pip install x"],
    ["bash -c 'pip install x && y'"], ["bash", "-c", "'pip install x && y'"],
    ["python", "/setup.py", "-c", "a b"], ["echo 123"], ["(/resources.sh&)"],
    ["bash", "-c", "ulimit -n 65536; echo head; $KUBERAY_GEN_RAY_START_CMD"],
    ["bash", "-c", "ray start --address=x --block & sleep 10; python s.py"],
    ["ray", "start", "--address=x", "--block"], ["(vllm serve m &)"], ["vllm serve m & sleep 1"],
    ["uvicorn --version"], ["sleep 10"], ["( (x); vllm serve m; y) & echo"],
    ["while true; do pip install x && break; sleep 1; done"],
    ["while true; do x; sleep 1; done & echo"], ["pip install x  # tools\necho"],
])  # fmt: skip
def test_a_command_that_returns(command: list[str]) -> None:
    assert command_rules(command) == set()


@pytest.mark.parametrize("command", [
    ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"],
    ["/opt/venv/bin/vllm", "serve", "m"], ["A=1 nohup vllm serve m"], ["sleep", "infinity"],
    ["pip install x && jupyter lab --ip=0.0.0.0"], ["tail -f /dev/null"], ["exec python t.py"],
    ["while true; do x; sleep 1; done"], ["serve run app:main"], ["vllm serve m | tee /log"],
    ["vllm serve m && x & vllm serve m"],
])  # fmt: skip
def test_a_command_that_never_returns(command: list[str]) -> None:
    assert command_rules(command) == {ENDLESS}


@pytest.mark.parametrize("text", [
    "echo a\n", "echo a;", "echo a &", "echo a &&", "echo a # b", "echo 'a", "echo a\n# b",
])  # fmt: skip
def test_a_text_that_kuberay_cannot_continue(text: str) -> None:
    assert command_rules([text]) == {SYNTAX}
    assert _output(text) == ""


@pytest.mark.parametrize("text", ["echo a", "(echo a &)", "echo a; echo b", "echo a # b\necho c"])
def test_a_text_that_kuberay_continues(text: str) -> None:
    assert command_rules([text]) == set()
    assert "started" in _output(text)


@pytest.mark.parametrize("repeated", ["while true; {}", "{}\nbreak"])
@pytest.mark.parametrize("unit", ["done ", "while true\n", "\n"])
def test_the_time_for_a_script_is_linear_in_its_length(repeated: str, unit: str) -> None:
    half, whole = (
        seconds(partial(findings, a_cluster().group().container(args=[repeated.format(text)])))
        for text in (unit * 6_000, unit * 12_000)
    )
    assert whole <= RATIO_MAX * half + 0.05


def test_the_end_of_a_text_is_in_the_last_list() -> None:
    cluster = a_cluster().group().container(command=["echo", "a"], args=["b;"])
    assert [each.path.rpartition(".")[2] for each in findings(cluster, SYNTAX)] == ["args"]


def test_the_annotation_that_overwrites_the_command() -> None:
    command = ["sh", "-c", "pip install x; vllm serve m"]
    cluster = a_cluster().group().container(command=command)
    assert rules(cluster) == {NESTED, ENDLESS}
    assert rules(a_cluster().annotated(OVERWRITE, "True").group().container(command=command)) == (
        set()
    )
    assert rules(cluster.pod_annotation(OVERWRITE, "true")) == set()


def test_every_kind_and_the_head() -> None:
    cluster = a_cluster().head_container(command=["sleep", "infinity"]).group()
    path = "headGroupSpec.template.spec.containers[0].command"
    assert found(a_job(cluster)) == {(ENDLESS, f"spec.rayClusterSpec.{path}")}
    assert found(a_service(cluster)) == {(ENDLESS, f"spec.rayClusterConfig.{path}")}
    (finding,) = findings(cluster)
    assert "'sleep infinity' does not end" in finding.message


def _output(text: str) -> str:
    """Return what bash prints for a text that KubeRay continues, as far as it starts Ray."""
    command = f" {text}  && ulimit -n 64; echo started"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, text=True)
    return done.stdout if "started" in done.stdout.split() else ""
