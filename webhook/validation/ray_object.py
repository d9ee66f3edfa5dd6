"""View of the object under review, of any Ray kind, with the cluster in it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from webhook.api import names
from webhook.manifest.inline import Inline, read_map
from webhook.manifest.yaml_values import DuplicateKey
from webhook.validation.cluster import ClusterSpec, read_cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import InspectedPod
from webhook.validation.pods.pod_templates import head_and_workers, submitter
from webhook.validation.rule_settings import RuleSettings

SIDECAR: Final = "SidecarMode"
K8S_JOB: Final = "K8sJobMode"
_YAML_MAX: Final = 65536
"""Maximum characters of YAML in a field that are parsed; parsing more would take too long in a
review.
"""
_CHECKED: Final = 2000
"""Maximum applications and deployments that are checked; YAML aliases can create very many."""
_NOWHERE: Final = Field(None)


class Job(Struct, dict=True):
    """The spec of a RayJob, or of the RayJobs that a RayCronJob creates."""

    field: Field
    root: Field
    cluster: ClusterSpec | None
    settings: RuleSettings

    @property
    def mode(self) -> str:
        """The submission mode."""
        return (self.field / "submissionMode").text

    @cached_property
    def runtime_env(self) -> Inline:
        """The parsed runtime environment; without value if it is absent or too long."""
        return _read_inline(self.field / "runtimeEnvYAML", "pip: [requests]")

    @property
    def environment(self) -> Field:
        """The runtime environment as a field whose path continues that of the text."""
        return Field(self.runtime_env.value, self.field, "runtimeEnvYAML")

    @property
    def has_submitter_pod(self) -> bool:
        """Return whether a pod of its own submits the job."""
        return self.mode in ("", K8S_JOB)

    @property
    def submitter(self) -> Field:
        """The template of the pod that submits the job, which only one mode has."""
        return self.field / "submitterPodTemplate" if self.has_submitter_pod else _NOWHERE

    @property
    def submitter_container(self) -> Field:
        """The container of that template that submits the job; absent if there is no template."""
        return next((self.submitter / "spec" / "containers").entries(), _NOWHERE)

    @property
    def in_shell(self) -> bool:
        """Return whether a shell of the submitter reads the entrypoint and the parameters."""
        has_command = (self.submitter_container / "command").size > 0
        return self.mode in ("", K8S_JOB, SIDECAR) and not has_command

    @property
    def selector(self) -> Field:
        """The selector of the existing cluster that runs the job."""
        return self.field / "clusterSelector"

    @property
    def selects(self) -> bool:
        """Return whether the job runs on an existing cluster."""
        return self.selector.size > 0

    @property
    def shutdown(self) -> bool:
        """Return whether the cluster is deleted after the job has finished."""
        return (self.field / "shutdownAfterJobFinishes").flag

    @property
    def autoscaling(self) -> bool:
        """Return whether the job's own cluster autoscales."""
        return self.cluster is not None and self.cluster.autoscaling


class Service(Struct, dict=True):
    """The spec of a RayService."""

    field: Field
    cluster: ClusterSpec

    @cached_property
    def config(self) -> Inline:
        """The parsed configuration of Serve; without value if it is absent or too long."""
        example = "applications: [{import_path: 'module:app'}]"
        return _read_inline(self.field / "serveConfigV2", example)

    @property
    def configuration(self) -> Field:
        """The configuration as a field whose path continues that of the text."""
        return Field(self.config.value, self.field, "serveConfigV2")

    def applications(self) -> Iterator[Field]:
        """Yield the applications of the configuration."""
        return islice((self.configuration / "applications").items(), _CHECKED)

    def deployments(self) -> Iterator[Field]:
        """Yield the deployments of all applications."""
        applications = self.applications()
        deployments = ((application / "deployments").items() for application in applications)
        return islice(chain.from_iterable(deployments), _CHECKED)

    def runtime_envs(self) -> Iterator[Field]:
        """Yield the runtime environments of applications and deployments, some of them absent."""
        for application in self.applications():
            yield application / "runtime_env"
        for deployment in self.deployments():
            yield deployment / "ray_actor_options" / "runtime_env"


class RayObject(Struct):
    """One object; of the three views, those of its kind are set."""

    kind: str
    root: Field
    settings: RuleSettings
    cluster: ClusterSpec | None = None
    job: Job | None = None
    service: Service | None = None
    pods: dict[str, list[Fault]] | UnsetType = UNSET
    """Problems of pod templates, by family of checks; unset until the first rule reads them."""
    duplicates: Sequence[DuplicateKey] = ()
    """The keys that a file has more than once in the same map."""

    def faults_of(self, family: str) -> Iterable[Fault]:
        """Return the problems of pod templates of one family of checks."""
        if self.pods is UNSET:
            self.pods = self._pods()
        return self.pods.get(family, ())

    def _pods(self) -> dict[str, list[Fault]]:
        faults_by_family: dict[str, list[Fault]] = {}
        pods: list[InspectedPod] = []
        job = self.job
        if self.cluster is not None:
            sidecar = job is not None and job.mode == SIDECAR
            pods += head_and_workers(self.cluster, sidecar=sidecar)
        if job is not None and job.submitter.given:
            pods.append(submitter(job.submitter))
        for pod in pods:
            for family, faults in pod.problems.items():
                faults_by_family.setdefault(family, []).extend(faults)
        return faults_by_family

    @property
    def meta(self) -> Field:
        return self.root / "metadata"

    def annotation(self, name: str) -> Field:
        return (self.meta / "annotations").key(name)


def _read_inline(field: Field, example: str) -> Inline:
    return read_map(field.text, example) if 0 < len(field.text) <= _YAML_MAX else Inline(None)


def read_ray_object(kind: str, value: object, settings: RuleSettings) -> RayObject:
    """Return the view of an object of one of the four Ray kinds."""
    root = Field(value)
    spec, meta = root / "spec", root / "metadata"
    ray_object = RayObject(kind, root, settings)
    if kind == names.RAYCLUSTER_KIND:
        ray_object.cluster = read_cluster(spec, meta, settings)
    elif kind == names.RAYSERVICE_KIND:
        ray_object.cluster = read_cluster(spec / "rayClusterConfig", meta, settings, kind)
        ray_object.service = Service(spec, ray_object.cluster)
    else:
        cron = kind == names.RAYCRONJOB_KIND
        job_spec, meta = (spec / "jobTemplate", _NOWHERE) if cron else (spec, meta)
        cluster, owner = job_spec / "rayClusterSpec", names.RAYJOB_KIND
        if cluster.given:
            ray_object.cluster = read_cluster(cluster, meta, settings, owner)
        ray_object.job = Job(job_spec, root, ray_object.cluster, settings)
    return ray_object
