"""The time for a text is linear in its length, whatever it repeats, in every field that a rule
parses: expressions and searches are in C functions, so that CPU time is measured and not lines.
"""

import json
from collections.abc import Callable
from time import process_time
from typing import Any, Final

import pytest

from tests.builders import NAMESPACE, Object, a_cluster
from tests.harness.work import RATIO_MAX, Call, seconds
from webhook.api import names
from webhook.validation.ruleset import check_file

_LENGTH: Final = 12_000
_NOISE_SECONDS: Final = 0.03

_UNITS: Final = (
    " ", "\n", " \n", "a", "1", ".", "-", "- ", "[", "{", '{"a":', "<", "(", ") ", '"', "'", "\\",
    "$(A)", "${", "$", "`", "&& ", "a && ", "a | ", "a & ", "; ", "#", "a=b,", ",", ": ", "/", "a.",
    "://", "@", "done ", "while true\n", "while true; ", "env ", "ray start ", "sh -c 'a' ",
    "python -c 'a' ", "ray job submit ", "tail -a ", "cat <<E\n", "--a=1 ", "{{ ", "\u00e9", "1e9",
)  # fmt: skip
"""Texts that are repeated."""
_END: Final = "!x"
"""An end that no expression expects, so that it tries all ways to match."""


def _raycluster(text: str) -> Object:
    container: Object = {
        "name": text,
        "image": text,
        "command": ["bash", "-c", text],
        "args": [text],
        "env": [
            {"name": name, "value": text}
            for name in ("A", names.RAY_START_COMMAND, names.MEGASCALE_NUM_SLICES, "PIP_INDEX_URL")
        ],
        "resources": {"limits": {"cpu": text, names.RESOURCE_TPU: text, "nvidia.com/gpu": text}},
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", text]}}},
    }
    selector = {names.NODE_TPU_TOPOLOGY: text, names.NODE_TPU_ACCELERATOR: text}
    spec = {"containers": [container], "nodeSelector": selector, "hostname": text}
    params = dict.fromkeys(("labels", "resources", "num-cpus", "system-config", "memory"), text)
    document = a_cluster("c").group("g", hosts=4, replicas=1).build()
    (group,) = document["spec"]["workerGroupSpecs"]
    group |= {"template": {"spec": spec}, "rayStartParams": params}
    document["spec"] |= {"rayVersion": text}
    document["metadata"] |= {"namespace": NAMESPACE, "annotations": {names.ANNOTATION_IPPR: text}}
    return document


def _rayjob(text: str) -> Object:
    spec = {"entrypoint": text, "runtimeEnvYAML": text, "jobId": text, "metadata": {"a": text}}
    spec |= {"entrypointResources": text, "rayClusterSpec": a_cluster("c").build()["spec"]}
    return {"metadata": {"name": "j"}, "spec": spec}


def _rayservice(text: str) -> Object:
    spec = {"serveConfigV2": text, "rayClusterConfig": a_cluster("c").build()["spec"]}
    return {"metadata": {"name": "s"}, "spec": spec}


def _raycronjob(text: str) -> Object:
    spec = {"schedule": text, "timeZone": text, "jobTemplate": _rayjob("python a.py")["spec"]}
    return {"metadata": {"name": "j"}, "spec": spec}


_KINDS: Final[dict[str, Callable[[str], Object]]] = {
    names.RAYCLUSTER_KIND: _raycluster,
    names.RAYJOB_KIND: _rayjob,
    names.RAYSERVICE_KIND: _rayservice,
    "RayCronJob": _raycronjob,
}


def _excess(kind: str, unit: str) -> float:

    def check(length: int) -> Call:
        document: Any = _KINDS[kind](unit * (length // len(unit)) + _END)
        return lambda: check_file(kind, document)

    half, whole = check(_LENGTH), check(2 * _LENGTH)
    for measure in (_once, *[seconds] * 3):  # the others take longer; most texts do not need them
        half_time, whole_time = measure(half), measure(whole)
        if whole_time <= RATIO_MAX * half_time + _NOISE_SECONDS:
            return 0
    return whole_time / half_time


def _once(call: Call) -> float:
    begun = process_time()
    call()
    return process_time() - begun


@pytest.mark.parametrize("kind", _KINDS)
def test_the_time_for_a_text_is_linear_in_its_length(kind: str) -> None:
    check_file(kind, _KINDS[kind]("x"))  # what is loaded or compiled once does not count
    ratios = {json.dumps(unit): ratio for unit in _UNITS if (ratio := _excess(kind, unit))}
    assert ratios == {}
