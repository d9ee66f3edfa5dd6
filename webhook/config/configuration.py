"""Settings of the processes: every section with its defaults, and the JSON Schema of a file."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from webhook.accelerators.devices import Device, add_device, own_device
from webhook.accelerators.profiles import Profile, add_profile, own_profile
from webhook.config.time_zones import TIME_ZONES
from webhook.groups.drain_timeout import SECONDS_MAX
from webhook.validation.rule_settings import GATES, RuleSettings, parse_kuberay
from webhook.validation.ruleset import RULES, unknown_names

API_VERSION: Final = "config.ray-webhook.dev/v1alpha1"
KIND: Final = "Configuration"
"""Of a file with settings."""

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=600)]
Level = Annotated[
    Literal["off", "warn", "deny"],
    BeforeValidator(lambda value: "off" if value is False else value),
    WithJsonSchema({"enum": ["off", "warn", "deny", False]}),
]
"""YAML reads `off` without quotes as false."""


def _names(known: Iterable[str]) -> Any:  # noqa: ANN401 - pydantic's metadata
    """Return what limits the names of a map in the schema."""

    def limit(schema: dict[str, Any]) -> None:
        schema["patternProperties"] = {f"^({'|'.join(known)})$": schema["additionalProperties"]}
        schema["additionalProperties"] = False

    return Field(json_schema_extra=limit)


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        alias_generator=to_camel,
        validate_by_name=True,
        serialize_by_alias=True,
    )


class Installation(_Section):
    """Where in the cluster the program is installed. Set it for all processes alike."""

    name: str = "ray-webhook"
    """Name of the Service and of both webhook configurations. The Secret of self-signed
    certificates is `<name>-tls`, the Lease of the controller `<name>-controller`.
    """

    namespace: str = ""
    """Namespace of the Service, the Secret and the Leases; empty means that of the pod."""

    fail_closed: bool = False
    """Whether `serve` sets `failurePolicy: Fail` in both webhook configurations, once a dry run
    through the API server has reached it, where their annotation
    `admission.ray.io/failure-policy` asks for it. The manifests set this.
    """


class Listen(_Section):
    """The listeners of every process."""

    host: str = "0.0.0.0"  # noqa: S104 - a pod serves its own address
    """Address of all listeners but that of the dashboard's page."""

    admin_port: Port = 8080
    """Plain HTTP port for `/livez`, `/readyz` and `/metrics`; 0 takes any free one."""


class Serving(_Section):
    """`ray-webhook serve`: the process that answers reviews."""

    port: Port = 10250
    """HTTPS port for reviews; 0 takes any free one. Besides 443, which needs a privilege, private
    GKE clusters let the control plane reach this port of nodes alone.
    """

    drain_seconds: Seconds = 0
    """How long a stopping process continues answering, until endpoints and connections have moved
    away.
    """


class Tls(_Section):
    """The serving certificate, and those of clients."""

    source: Literal["files", "self-signed"] = "files"
    """Where the certificate comes from: `files`, such as a Secret of cert-manager, or
    `self-signed`, made by the webhook, which keeps it in a Secret that has to exist and may be
    empty.
    """

    cert_dir: Path = Path("/etc/ray-webhook/tls")
    """Directory of `tls.crt`, the certificate chain in PEM, and `tls.key`, its private key without
    a password. These are the names in a Secret of cert-manager.
    """

    client_ca: Path | None = None
    """Authorities in PEM; with them, only clients with a certificate of one of these are served.
    kube-apiserver shows one only when its admission configuration names it.
    """

    client_names: list[str] = []
    """Names (common name or DNS name) that a client's certificate may bear; empty allows every
    name. Needs `tls.clientCa`.
    """

    @model_validator(mode="after")
    def _names_need_authorities(self) -> Self:
        if self.client_names and self.client_ca is None:
            raise ValueError("clientNames needs clientCa, the authorities that sign these names")
        return self


class Log(_Section):
    """The log on standard output."""

    admissions: Literal["all", "denied"] = "all"
    """Which reviews get a line. `denied` saves a few microseconds a review."""

    format: Literal["auto", "json", "text"] = "auto"
    """How lines look: `json` for machines, `text` for people. `auto` is `text` on a terminal, else
    `json`.
    """


class Validation(_Section):
    """The rules for Ray objects; `docs/rules.md` lists them."""

    levels: Annotated[dict[str, Level], _names([rule.id for rule in RULES])] = {}
    """Level of a rule by its id, where it is not the default: `off`, `warn` or `deny`."""

    gates: Annotated[dict[str, bool], _names(GATES)] = {}
    """Feature gates of the KubeRay operator, where they are not the defaults of KubeRay 1.7."""

    kuberay: Annotated[str, Field(pattern=r"^([0-9]{1,3}\.[0-9]{1,3})?$")] = ""
    """Release of KubeRay, such as `1.6`. Without it `serve` goes by the fields of the stored CRD of
    RayClusters; where these tell nothing, the rules speak for the newest release that they know,
    and only warn of what no earlier one checks.
    """

    operators: list[str] = [
        "system:serviceaccount:ray-system:kuberay-operator",
        "system:serviceaccount:default:kuberay-operator",
    ]
    """Accounts of the KubeRay operator, by default those of its two ways of installation. Denials
    of a Ray object that one of these makes for another become warnings: the owner was judged, and
    could not recover, upgrade or run again.
    """

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        problems = unknown_names(self.rules())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def rules(self, *, ignoring: bool = True) -> RuleSettings:
        """Return them as the rule set takes them."""
        return RuleSettings(
            dict(self.levels),
            dict(self.gates),
            TIME_ZONES,
            operators=frozenset(self.operators),
            kuberay=parse_kuberay(self.kuberay),
            ignoring=ignoring,
        )


class Scheduling(_Section):
    """Scheduling groups, for RayClusters that ask for them;
    `docs/scheduling.md#gang-scheduling` tells more.
    """

    publish: bool = False
    """Whether PodGroups are kept for these RayClusters: `controller` keeps them, `serve` warns each
    pod when no one does. Set it for both alike.
    """


class Network(_Section):
    """Names by which worker pods find each other; `docs/units.md` has more."""

    services: bool = False
    """Whether `controller` creates the headless Service `<cluster>-headless` for RayClusters whose
    single hosts need names: KubeRay creates it only where a group has several hosts. It needs the
    right to create Services. Set it for `serve` alike, which otherwise warns for each pod.
    """


class ComputeDomains(_Section):
    """ComputeDomains of NVIDIA's DRA driver; `docs/scheduling.md#computedomains` tells more."""

    enabled: bool = False
    """Whether they are kept for these RayClusters: `controller` keeps them, and `serve` gives pods
    their claims. Set it for both alike.
    """


class Controller(_Section):
    """`ray-webhook controller`: the process that writes to the cluster."""

    events: bool = True
    """Whether RayClusters are told by events what is wrong with their replicas, and replicas are
    counted in the metrics; `docs/status.md` lists the events.
    """


class Dashboard(_Section):
    """`ray-webhook dashboard --in-cluster`: the page, for everybody whose token the API server
    knows; `docs/status.md#dashboard` tells more.
    """

    host: str = "127.0.0.1"
    """Address of the page. On loopback, `kubectl port-forward` alone reaches it, over the TLS of
    the API server; with another address, something before it has to speak TLS.
    """

    port: Port = 8090
    """Plain HTTP port of the page; 0 takes any free one."""

    hosts: list[str] = []
    """Names by which browsers may call it, beside `localhost` and the addresses of loopback."""


class Resize(_Section):
    """Resize in place; `docs/lifecycle.md#in-place-resize` tells more."""

    policy: Literal["listed", "all", "none"] = "listed"
    """Which Ray pods get a resize policy: those of groups in the annotation `ray.io/ippr`, `all`,
    or `none`.
    """

    beyond: Level = "warn"
    """What happens to a resize beyond the maxima of `ray.io/ippr`, where the webhook is asked about
    `pods/resize`.
    """


class Affinity(_Section):
    """Where the replicas of worker groups run."""

    apart: Literal["all", "own"] = "all"
    """From which replicas one of several hosts is kept apart: those of `all` namespaces, or of its
    `own`. With `all`, pods of another namespace that carry seat labels can keep a slice from it;
    with `own`, two namespaces can share a slice.
    """


class Termination(_Section):
    """The end of worker pods; `docs/lifecycle.md#termination` tells more."""

    drain_seconds: Annotated[int, Field(ge=0, le=SECONDS_MAX)] = 0
    """How long workers may finish what runs on them, in RayClusters without the annotation
    `admission.ray.io/drain-seconds`; 0 leaves their pods as they are.
    """


class Repair(_Section):
    """Replicas of several hosts that lost one, in RayClusters that ask for repair;
    `docs/lifecycle.md#repair` tells more.
    """

    enabled: bool = False
    """Whether `controller` repairs them. It needs the right to patch and delete pods."""


class Topology(_Section):
    """Where nodes of Ray are; `docs/scheduling.md#labels-of-ray-nodes` tells more."""

    zones: Literal["auto", "on", "off"] = "auto"
    """Whether Ray is told the zone and the region of its nodes. `auto` is: where the API server is
    of Kubernetes 1.35 or later, which copies these labels from the Node to the pod.
    """

    node_labels: list[str] = []
    """Labels of Nodes that a RayCluster may pass on to Ray, such as `nvidia.com/gpu.clique`. With
    any, every pod that is bound in the namespaces of the webhook gets them as annotations.
    """


class Ignore(_Section):
    """What the label `admission.ray.io/ignore` may take out of the webhook's hands.

    On a namespace it always does, as API servers do not ask about objects there.
    """

    rayclusters: bool = True
    """Whether it does on RayClusters, RayJobs, RayServices and RayCronJobs, so that anyone who may
    write one may also leave the rules. Set it for all processes alike.
    """


class Settings(_Section):
    """Everything that can be set."""

    installation: Installation = Installation()
    listen: Listen = Listen()
    serving: Serving = Serving()
    tls: Tls = Tls()
    log: Log = Log()
    validation: Validation = Validation()
    scheduling: Scheduling = Scheduling()
    network: Network = Network()
    compute_domains: ComputeDomains = ComputeDomains()
    resize: Resize = Resize()
    affinity: Affinity = Affinity()
    termination: Termination = Termination()
    topology: Topology = Topology()
    repair: Repair = Repair()
    ignore: Ignore = Ignore()
    controller: Controller = Controller()
    dashboard: Dashboard = Dashboard()

    devices: dict[str, list[str]] = {}
    """Devices beside the known ones, whose hosts have a rendezvous as those of GPUs: by name, the
    extended resources by which containers ask for one, such as `habana.ai/gaudi`. A text without a
    slash is the end of the names of claims.
    """

    profiles: dict[str, dict[str, str]] = {}
    """Profiles beside the shipped ones: by name, variables and their values, in which `{hosts}`,
    `{rank}`, `{master}`, `{devices}` and variables such as `{MASTER_ADDR}` are filled in.
    """

    standalone: bool = False
    """Serve without Kubernetes: RayClusters and pods come from `state`, and a pod that was admitted
    counts as created.
    """

    state: list[Path] = []
    """Files or directories (YAML or JSON) with the RayClusters and pods that stand in for the
    cluster.
    """

    kubeconfig: Path | None = None
    """Kubeconfig for the API server; without it, the configuration that a pod has inside the
    cluster.
    """

    namespaces: list[str] = []
    """Namespaces to watch; none means all. The webhook configuration must not ask about pods
    elsewhere.
    """

    @model_validator(mode="after")
    def _rows_can_be(self) -> Self:
        self._rows()
        return self

    def _rows(self) -> tuple[list[Device], list[Profile]]:
        """Return the devices and profiles. Raises ValueError."""
        devices = [own_device(name, keys) for name, keys in self.devices.items()]
        return devices, [own_profile(name, each) for name, each in self.profiles.items()]

    def extend(self) -> None:
        """Add the devices and profiles to those that the program knows."""
        devices, profiles = self._rows()
        for device in devices:
            add_device(device)
        for profile in profiles:
            add_profile(profile)


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a file with settings, without references."""
    found = Settings.model_json_schema()
    inlined: dict[str, Any] = _inlined(
        {key: value for key, value in found.items() if key != "$defs"}, found["$defs"]
    )
    head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    return inlined | {
        "properties": head | inlined["properties"],
        "required": [*head],
    }


@cache
def known() -> dict[str, Mapping[str, Any]]:
    """Return the schema of every setting by its dotted name, in order, without the sections."""
    return dict(_leaves("", schema()["properties"]))


def _leaves(
    section: str, properties: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, node in properties.items():
        if "properties" in node:
            yield from _leaves(f"{section}{name}.", node["properties"])
        elif "const" not in node:
            yield f"{section}{name}", node


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return a schema with what it refers to in place, and descriptions in one line; sections refer
    to no section above them.
    """
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined(definitions[node["$ref"].rpartition("/")[2]] | rest, definitions)
    return {
        key: " ".join(value.split())
        if key == "description" and isinstance(value, str)
        else _inlined(value, definitions)
        for key, value in node.items()
    }
