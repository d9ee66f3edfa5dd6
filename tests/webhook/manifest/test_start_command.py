"""The command of Ray's container is composed as KubeRay composes it."""

import pytest

from tests.builders import Object
from webhook.manifest.start_command import start_commands

ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "
DEFAULTS = "--metrics-export-port=8080"


def start_command(container: Object, **group: object) -> tuple[str, str]:
    """Return the commands of a head, and of a worker with this container and these fields."""
    template = {"spec": {"containers": [container]}}
    document = {
        "metadata": {"annotations": group.pop("annotations", {})},
        "spec": {
            "headGroupSpec": {"template": template, "rayStartParams": {"port": "6380"}},
            "workerGroupSpecs": [{"groupName": "w", "template": template, **group}],
        },
    }
    (_, head), (name, worker) = start_commands(document, "c", "team")
    assert name == "w"
    return head, worker


def params(container: Object, **group: object) -> str:
    """Return the parameters of a worker that the test adds to those of all workers."""
    first = f"{ULIMIT}ray start --address=c-head-svc.team.svc.cluster.local:6380 --block "
    command = start_command(container, **group)[1]
    return command.removeprefix(first).removeprefix("--dashboard-agent-listen-port=52365 ")


def test_the_head_and_a_worker_without_anything() -> None:
    head, worker = start_command({})
    agent = "--dashboard-agent-listen-port=52365"
    assert head == (
        f"{ULIMIT}ray start --head --block {agent} --dashboard-host=0.0.0.0 {DEFAULTS} --port=6380"
    )
    assert worker == (
        f"{ULIMIT}ray start --address=c-head-svc.team.svc.cluster.local:6380 --block {agent} "
        f"{DEFAULTS}"
    )


@pytest.mark.parametrize(("resources", "added"), [
    ({"limits": {"cpu": "1500m", "memory": "1Gi"}}, " --num-cpus=2|--memory=1073741824 "),
    ({"requests": {"cpu": "3", "memory": "1Gi"}}, " --num-cpus=3|"),
    ({"limits": {"nvidia.com/gpu": 8}}, " --num-gpus=8|"),
    ({"limits": {"nvidia.com/mig-1g.10gb": 2}}, " --num-gpus=2|"),
    ({"limits": {"google.com/tpu": "4"}}, " --resources='{\"TPU\":4}'|"),
    ({"limits": {"aws.amazon.com/neuroncore": "4"}}, " --resources='{\"neuron_cores\":4}'|"),
])  # fmt: skip
def test_amounts_of_the_container(resources: Object, added: str) -> None:
    after, before = added.split("|")
    assert params({"resources": resources}) == f"{before}{DEFAULTS}{after}"


@pytest.mark.parametrize(("group", "expected"), [
    ({"rayStartParams": {"num-cpus": "1", "no-monitor": "true", "verbose": "false"}},
     f"{DEFAULTS} --no-monitor --num-cpus=1"),
    ({"rayStartParams": {"include-dashboard": "false"}}, f"--include-dashboard=false {DEFAULTS}"),
    ({"resources": {"CPU": "3", "nvidia.com/gpu": "1", "B": "x", "A": "1500m"}},
     f"{DEFAULTS} --num-cpus=3 --num-gpus=1 --resources='{{\"A\":1.5}}'"),
    ({"labels": {"b": "1", "a": "2"}}, f"--labels=a=2,b=1 {DEFAULTS}"),
])  # fmt: skip
def test_parameters_of_a_group(group: Object, expected: str) -> None:
    assert params({}, **group) == expected


def test_custom_resources_are_merged_where_kuberay_can_parse_them() -> None:
    container = {"resources": {"limits": {"google.com/tpu": 4, "nvidia.com/gpu": 1}}}
    given = {"resources": "'{\"A\": 1}'"}
    assert params(container, rayStartParams=given) == (
        f'{DEFAULTS} --num-gpus=1 --resources=\'{{"A":1,"TPU":4}}\''
    )
    escaped = {"resources": '"{\\"A\\": 1}"'}
    assert params(container, rayStartParams=escaped) == (f'{DEFAULTS} --resources="{{\\"A\\": 1}}"')


@pytest.mark.parametrize("number", ["1e999999999", "1e" + "9" * 200, "9" * 400, "-1e400"])
def test_a_number_that_kuberay_cannot_decode_has_no_custom_resources(number: str) -> None:
    container = {"resources": {"limits": {"google.com/tpu": 4}}}
    given = {"resources": f"'{{\"A\": {number}}}'"}
    assert params(container, rayStartParams=given) == f"{DEFAULTS} --resources={given['resources']}"
    small = {"resources": f"'{{\"A\": 1e-{'9' * 200}}}'"}
    assert '"A":0,' in params(container, rayStartParams=small)


def test_own_words_come_before_ray_start() -> None:
    own = {"command": ["sh", "-c"], "args": ["pip install x && y"]}
    head, worker = start_command(own)
    for command in (head, worker):
        assert command.startswith(f"sh -c pip install x && y && {ULIMIT}ray start ")
    replaced = start_command(own, annotations={"ray.io/overwrite-container-cmd": "True"})
    assert replaced == ("sh -c pip install x && y",) * 2
    one_command = {"command": ["bash", "-c", "ray start --head"]}
    assert start_command(one_command) == ("bash -c ray start --head",) * 2
