"""Builders of valid Ray objects, which tests then change."""

from collections.abc import Iterator
from typing import Any, Self

from tests import builders
from webhook.validation.finding import Finding
from webhook.validation.rule_settings import DEFAULTS, RuleSettings
from webhook.validation.ruleset import check, check_update

IMAGE = "rayproject/ray:2.55.1"

Json = dict[str, Any]


class Built(builders.Built):
    """A Ray object under construction."""

    def __init__(self, kind: str, name: str = "demo") -> None:
        self.kind = kind
        super().__init__(name=name)


class ClusterBuilder(Built):
    """A RayCluster with a head and, unless stated otherwise, no worker group."""

    def __init__(self, name: str) -> None:
        super().__init__("RayCluster", name)
        self.spec(
            rayVersion="2.55.1",
            headGroupSpec={"rayStartParams": {}, "template": _template("ray-head")},
            workerGroupSpecs=[],
        )

    def head(self, **fields: object) -> Self:
        self.value["spec"]["headGroupSpec"].update(fields)
        return self

    def head_pod(self, **fields: object) -> Self:
        self.value["spec"]["headGroupSpec"]["template"]["spec"].update(fields)
        return self

    def head_container(self, **fields: object) -> Self:
        self.value["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0].update(fields)
        return self

    def head_env(self, name: str, value: str) -> Self:
        _env(self.value["spec"]["headGroupSpec"], name, value)
        return self

    def group(self, name: str = "workers", *, hosts: int = 1, **fields: object) -> Self:
        group = {
            "groupName": name, "numOfHosts": hosts, "replicas": 1, "minReplicas": 0,
            "maxReplicas": 10, "rayStartParams": {}, "template": _template("ray-worker"),
        }  # fmt: skip
        self.value["spec"]["workerGroupSpecs"].append({**group, **fields})
        return self

    def tpu(self, topology: str, chips: int, accelerator: str = "tpu-v6e-slice") -> Self:
        self._last_pod()["nodeSelector"] = {
            "cloud.google.com/gke-tpu-accelerator": accelerator,
            "cloud.google.com/gke-tpu-topology": topology,
        }
        return self.device("google.com/tpu", chips)

    def device(self, resource: str, count: int | str) -> Self:
        resources = self._last_pod()["containers"][0]["resources"]
        resources["limits"][resource] = resources["requests"][resource] = str(count)
        return self

    def env(self, name: str, value: object) -> Self:
        _env(self._last_group(), name, value)
        return self

    def pod(self, **fields: object) -> Self:
        self._last_pod().update(fields)
        return self

    def pod_annotation(self, key: str, value: str) -> Self:
        metadata = self._last_group()["template"].setdefault("metadata", {})
        metadata.setdefault("annotations", {})[key] = value
        return self

    def container(self, **fields: object) -> Self:
        self._last_pod()["containers"][0].update(fields)
        return self

    def sidecar(self, name: str = "sidecar", **fields: object) -> Self:
        self._last_pod()["containers"].append({"name": name, "image": "sidecar:1", **fields})
        return self

    def init(self, name: str = "setup", **fields: object) -> Self:
        self._last_pod().setdefault("initContainers", []).append(
            {"name": name, "image": "setup:1", **fields}
        )
        return self

    def autoscaled(self, **options: object) -> Self:
        self.spec(enableInTreeAutoscaling=True)
        return self.spec(autoscalerOptions=options) if options else self

    def _last_group(self) -> Json:
        group: Json = self.value["spec"]["workerGroupSpecs"][-1]
        return group

    def _last_pod(self) -> Json:
        pod: Json = self._last_group()["template"]["spec"]
        return pod


def a_cluster(name: str = "demo") -> ClusterBuilder:
    return ClusterBuilder(name)


def a_job(cluster: ClusterBuilder | None = None) -> Built:
    """Return a RayJob with a cluster of its own."""
    spec = (cluster or a_cluster().group()).build()["spec"]
    return Built("RayJob").spec(entrypoint="python main.py", rayClusterSpec=spec)


def a_service(cluster: ClusterBuilder | None = None) -> Built:
    spec = (cluster or a_cluster().group()).build()["spec"]
    applications = "applications: [{import_path: 'app:main'}]"
    return Built("RayService").spec(serveConfigV2=applications, rayClusterConfig=spec)


def a_cron_job(job: Built | None = None) -> Built:
    """Return a RayCronJob that makes a RayJob every night."""
    template = (job or a_job()).build()["spec"]
    return Built("RayCronJob").spec(schedule="0 3 * * *", jobTemplate=template)


def found(built: Built | Json, settings: RuleSettings = DEFAULTS) -> set[tuple[str, str]]:
    value = built.build() if isinstance(built, Built) else built
    return rules_and_paths(check(value["kind"], value, settings))


def rules(built: Built | Json, settings: RuleSettings = DEFAULTS) -> set[str]:
    return {rule for rule, _ in found(built, settings)}


def findings(built: Built, *wanted: str, settings: RuleSettings = DEFAULTS) -> list[Finding]:
    listed = check(built.kind, built.build(), settings)
    return [each for each in listed if not wanted or each.rule in wanted]


def found_in_update(
    old: Built | Json, new: Built | Json, settings: RuleSettings = DEFAULTS
) -> set[tuple[str, str, str]]:
    before = old.build() if isinstance(old, Built) else old
    after = new.build() if isinstance(new, Built) else new
    return {
        (finding.level, finding.rule, finding.path)
        for finding in check_update(after["kind"], before, after, settings)
    }


def rules_and_paths(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.rule, finding.path) for finding in findings}


def fields_of(value: object, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield way
    if isinstance(value, dict):
        for key, item in value.items():
            yield from fields_of(item, (*way, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields_of(item, (*way, index))


def _template(name: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi"}
    container = {
        "name": name,
        "image": IMAGE,
        "resources": {"limits": dict(amounts), "requests": dict(amounts)},
    }
    return {"spec": {"containers": [container]}}


def _env(group: Json, name: str, value: object) -> None:
    entry = {"name": name, **(value if isinstance(value, dict) else {"value": value})}
    group["template"]["spec"]["containers"][0].setdefault("env", []).append(entry)


def with_amount(amount: object) -> Json:
    return a_cluster().group().head_container(resources={"limits": {"memory": amount}}).build()


def undecodable(kind: str, value: object) -> bool:
    return "value-not-decodable" in {each.rule for each in check(kind, value)}
