"""The command of a remedy shows every kind of object that the message and the remedy name."""

import re
from typing import Final

import pytest

from tests.webhook.diagnostics.samples import samples
from webhook.diagnostics.diagnosis import Problem

SAMPLES: Final = samples()

KINDS: Final = {
    "node": r"(?<!\d )\bnodes?\b(?! pool)", "taint": r"\btolerat|\btaint",
    "claim": r"PersistentVolumeClaim", "device claim": r"ResourceClaim",
    "quota": r"\bquota\b(?! for)", "LimitRange": r"LimitRange", "ServiceAccount": r"ServiceAccount",
    "PriorityClass": r"PriorityClass", "Secret": r"(?i)\bsecret\b",
    "ConfigMap": r"(?i)\bconfigmap\b", "PodGroup": r"PodGroup", "Workload": r"Workload",
    "queue": r"\bqueue\b", "RayJob": r"RayJob", "RayService": r"RayService",
    "namespace": r"\bnamespace\b", "service": r"\bthe service\b",
    "webhook configuration": r"webhookconfiguration",
    "log": r"\blogs? of\b", "event": r"\bevents\b", "finalizer": r"finalizer",
    "variable": r"\b(?:TPU|NODE|MEGASCALE)_[A-Z_]+",
    "host name": r"\bhostname\b", "autoscaler": r"autoscaler of",
}  # fmt: skip
"""The kinds of objects, and the parts of them, that a sentence names."""

POD: Final = {"node", "taint", "claim", "Secret", "ConfigMap", "PriorityClass", "event"}
"""What `kubectl describe pod` shows of a pod."""

SHOWN: Final = {
    r"describe pod ": POD,
    r"get pods? .*-o wide": {"node"},
    r"get pod .*-o yaml": {*POD, "variable", "host name", "finalizer", "ServiceAccount"}
    - {"event"},
    r"describe node |get nodes?\b": {"node"},
    r"describe node |get nodes .*taints": {"taint"},
    r"describe pvc": {"claim", "node"},
    r"describe resourceclaims": {"device claim"},
    r"describe resourcequota": {"quota"},
    r"describe limitrange": {"LimitRange"},
    r"get serviceaccounts": {"ServiceAccount"},
    r"get priorityclasses": {"PriorityClass"},
    r"get secrets|describe secret": {"Secret"},
    r"get configmaps|describe configmap": {"ConfigMap"},
    r"(?:get|describe) podgroups?": {"PodGroup"},
    r"describe workloads": {"Workload", "queue", "quota", "event"},
    r"describe (?:job,)?rayjob": {"RayJob", "event"},
    r"describe rayservice": {"RayService", "event"},
    r"describe raycluster": {"event", "RayJob", "RayService", "queue"},
    r"get raycluster .*-o yaml": {"finalizer", "variable", "queue"},
    r"get raycluster .*--show-labels": {"queue"},
    r"(?:get|describe) namespace": {"namespace"},
    r"get services": {"service"},
    r"webhookconfiguration": {"webhook configuration", "namespace"},
    r"kubectl logs": {"log"},
    r"logs .*-c autoscaler": {"autoscaler"},
    r"ray-webhook check": {"webhook configuration"},
}
"""The kinds in the output of each command."""


def unseen(problem: Problem) -> set[str]:
    """Return the kinds that a problem names, and its command does not show."""
    text = f"{problem.message}; {problem.remedy}"
    named = {kind for kind, pattern in KINDS.items() if re.search(pattern, text)}
    shown = (kinds for part, kinds in SHOWN.items() if re.search(part, problem.command))
    return named.difference(*shown)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_command_shows_every_kind_that_its_sentence_names(name: str) -> None:
    for problem in SAMPLES[name].scene().examined().every_problem:
        assert not unseen(problem), f"{problem.message}; {problem.remedy}; {problem.command}"
