"""Commands of Ray's container: what runs before `ray start`, and what keeps it from running."""

import subprocess
from functools import partial

import pytest

from tests.harness.ray_objects import a_cluster, a_job, a_service, findings, found, rules
from tests.harness.work import RATIO_MAX, seconds

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
    ["uvicorn --version"], ["sleep 10"],
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
        seconds(partial(findings, a_cluster().group().container(args=[repeated.format(text)])), 2)
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
