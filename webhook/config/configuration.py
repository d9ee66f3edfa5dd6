"""Settings of the processes: all sections with their defaults, and the JSON Schema of the file."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from webhook.accelerators.devices import own_device
from webhook.accelerators.profiles import own_profile
from webhook.api.formats import DNS_LABEL_MAX, is_dns_label, is_dns_subdomain, shorten
from webhook.config.settings_file import API_VERSION, KIND, on_or_off
from webhook.config.time_zones import TIME_ZONES
from webhook.groups.drain_timeout import SECONDS_MAX
from webhook.groups.identity import MAX_REPLICAS
from webhook.validation.rule_settings import GATES, OPERATORS, RuleSettings, parse_kuberay
from webhook.validation.rules import RULES
from webhook.validation.ruleset import unknown_names

T = TypeVar("T", bound=Mapping[str, Any])


def _label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError(f"{shorten(text)!r} is no name of a Service or namespace: {_LABEL_ADVICE}")
    return text


def _address(text: str) -> str:
    """Return the address of a listener, an IP address or a host name, or empty. Raises
    ValueError.
    """
    try:
        if text:
            ip_address(text)
    except ValueError:
        if not is_dns_subdomain(text.lower()) or text.rpartition(".")[2].isdecimal():
            text = f"{shorten(text)!r} is neither an IP address nor a host name"
            raise ValueError(text) from None
    return text


_LABEL_ADVICE: Final = (
    f"use up to {DNS_LABEL_MAX} lower-case letters, digits and '-'; letter or digit at both ends"
)
Address = Annotated[str, AfterValidator(_address)]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=600)]


Level = Annotated[
    Literal["off", "warn", "deny"],
    BeforeValidator(on_or_off),
    WithJsonSchema({"enum": ["off", "warn", "deny", False]}),
]
Zones = Annotated[
    Literal["auto", "on", "off"],
    BeforeValidator(on_or_off),
    WithJsonSchema({"enum": ["auto", "on", "off", True, False]}),
]
CipherSuite = Literal[
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
]
"""Cipher suites of TLS 1.2 with forward secrecy and without CBC mode, as all of TLS 1.3."""

Component = Literal["events", "pod-groups", "compute-domains", "repair"]
"""A part of the controller."""


def _names(known: Iterable[str]) -> Any:  # noqa: ANN401 - pydantic's metadata
    """Return a field that restricts the keys of a map in the schema."""

    def limit(schema: dict[str, Any]) -> None:
        schema["patternProperties"] = {f"^({'|'.join(known)})$": schema["additionalProperties"]}
        schema["additionalProperties"] = False

    return Field(json_schema_extra=limit)


def _each(own: Callable[[str, Any], object]) -> Callable[[T], T]:
    """Return a validator of a map whose entries `own` can read; it raises ValueError."""

    def check(entries: T) -> T:
        for entry in entries.items():
            own(*entry)
        return entries

    return check


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
    """Where the program is installed in the cluster. Use the same values for all processes."""

    name: Annotated[str, AfterValidator(_label)] = "ray-webhook"
    """Name of the Service and of both webhook configurations. The Secret of self-signed
    certificates is `<name>-tls`, the Lease of the controller `<name>-controller`.
    """

    namespace: Annotated[str, AfterValidator(lambda text: text and _label(text))] = ""
    """Namespace of the Service, the Secret and the Leases; empty means that of the pod."""

    components: list[Component] = ["events"]
    """What `controller` does: record problems of replicas as `events` on RayClusters
    (`docs/status.md`), and count replicas in metrics; create `pod-groups` for RayClusters that
    request gang scheduling (`docs/scheduling.md#gang-scheduling`); create `compute-domains` of
    NVIDIA's DRA driver for those that request them (`docs/scheduling.md#computedomains`); `repair`
    replicas that lost a host (`docs/lifecycle.md#repair`). Each requires its permissions. `serve`
    adds what depends on them to pods, and warns where a component is missing that a pod needs.
    """


class Listen(_Section):
    """The listeners of every process."""

    host: Address = ""
    """Address of all listeners. If empty, they listen on all addresses of IPv6 and IPv4, or of IPv4
    where the machine has no IPv6.
    """

    admin_port: Port = 8080
    """Plain HTTP port for `/livez`, `/readyz` and `/metrics`; 0 selects a free port."""


class Serving(_Section):
    """`ray-webhook serve`: the process that answers admission reviews."""

    port: Port = 10250
    """HTTPS port for admission reviews; 0 selects a free port. The control plane of a private GKE
    cluster can reach only this port and 443 of nodes, and 443 requires a privilege.
    """

    drain_seconds: Seconds = 0
    """Seconds for which a stopping process continues to answer, until endpoints and connections
    have moved to other replicas.
    """


class Tls(_Section):
    """The serving certificate, and client certificates."""

    source: Literal["files", "self-signed"] = "files"
    """Source of the certificate: `files`, such as those of a Secret of cert-manager, or
    `self-signed`, issued by the webhook and stored in a Secret, which has to exist and may be
    empty.
    """

    cert_dir: Path = Path("/etc/ray-webhook/tls")
    """Directory of `tls.crt`, the certificate chain in PEM, and `tls.key`, its private key without
    a password. cert-manager uses these names in its Secrets.
    """

    client_ca: Path | None = None
    """Certificate authorities in PEM. If set, only clients with a certificate of one of them are
    served. kube-apiserver presents a certificate only if its admission configuration contains one.
    """

    client_names: list[str] = []
    """Allowed names (common name or DNS name) of client certificates; empty allows every name.
    Requires `tls.clientCa`.
    """

    min_version: Literal["VersionTLS12", "VersionTLS13"] = "VersionTLS12"
    """Minimum TLS version, by the names of Kubernetes."""

    cipher_suites: list[CipherSuite] = []
    """Allowed cipher suites of TLS 1.2, by their IANA names, most preferred first; empty allows the
    six with ECDHE and AES-GCM or ChaCha20. Those of TLS 1.3 cannot be configured.
    """

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.client_names and self.client_ca is None:
            raise ValueError("clientNames needs clientCa, the authorities that sign these names")
        if self.cipher_suites and self.min_version == "VersionTLS13":
            raise ValueError(
                "cipherSuites are those of TLS 1.2, which minVersion VersionTLS13 excludes: remove "
                "cipherSuites, or set minVersion to VersionTLS12"
            )
        return self


class LogSettings(_Section):
    """The log on standard output."""

    admissions: Literal["all", "denied"] = "all"
    """Reviews to log. `denied` saves a few microseconds per review."""

    format: Literal["auto", "json", "text"] = "auto"
    """Format of log lines: `json` for machines, `text` for people. `auto` is `text` on a terminal,
    `json` otherwise.
    """


class ValidationSettings(_Section):
    """The rules for Ray objects; `docs/rules.md` lists them."""

    levels: Annotated[dict[str, Level], _names([rule.id for rule in RULES])] = {}
    """Enforcement actions that differ from the default, by rule id: `off`, `warn` or `deny`."""

    gates: Annotated[dict[str, bool], _names(GATES)] = {}
    """Feature gates of the KubeRay operator that differ from the defaults of KubeRay 1.7."""

    kuberay: Annotated[str, Field(pattern=r"^([0-9]{1,3}\.[0-9]{1,3})?$", examples=["1.6"])] = ""
    """Release of KubeRay, such as `1.6`. If empty, `serve` derives it from the fields of the stored
    RayCluster CRD; if that is not possible, the rules assume the newest release that they support,
    and only warn about checks that no earlier release makes.
    """

    quotas: bool = True
    """Whether `serve` watches ResourceQuotas and LimitRanges, and warns of pods that do not fit."""

    operators: list[str] = [*OPERATORS]
    """Service accounts of the KubeRay operator, by default those of its two installation methods.
    Denials of a Ray object that one of them creates for another Ray object become warnings: the
    owner was validated already, and could not recover, upgrade or run again.
    """

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        problems = unknown_names(self.rules())
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def rules(self, *, ignoring: bool = True) -> RuleSettings:
        """Return the settings of the rule set."""
        return RuleSettings(
            dict(self.levels),
            dict(self.gates),
            TIME_ZONES,
            operators=frozenset(self.operators),
            kuberay=parse_kuberay(self.kuberay),
            ignoring=ignoring,
        )


class AffinitySettings(_Section):
    """Placement of the replicas of worker groups."""

    apart: Literal["all", "own"] = "all"
    """Exclusive placement of a multi-host replica: against the replicas of `all` namespaces, or of
    its `own`. With `all`, pods of another namespace with identity labels can block a slice; with
    `own`, two namespaces can share a slice.
    """


class Startup(_Section):
    """Start of worker pods; see `docs/lifecycle.md#start`."""

    raise_wait_gcs_ready: bool = True
    """Raise the resources of KubeRay's init container `wait-gcs-ready` to what Ray's container
    requests, at most 900m and 1Gi. The pod requests no more than without.
    """


class Termination(_Section):
    """Termination of worker pods; see `docs/lifecycle.md#termination`."""

    drain_seconds: Annotated[int, Field(ge=0, le=SECONDS_MAX)] = 0
    """Seconds for which terminating workers may finish their tasks, in RayClusters without the
    annotation `admission.ray.io/drain-seconds`; 0 leaves their pods unchanged.
    """


class Disruption(_Section):
    """Voluntary disruption of pods; see `docs/lifecycle.md#nodes`."""

    keep_nodes: Literal["none", "heads", "replicas", "all"] = "none"
    """Pods whose nodes the cluster autoscaler and Karpenter do not remove, in RayClusters without
    the annotation `admission.ray.io/keep-nodes`: `heads` without fault tolerance of the GCS, hosts
    of multi-host `replicas`, or `all` of both.
    """

    max_disrupted_replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """How many replicas of a worker group evictions may disrupt at once, in RayClusters without the
    annotation `admission.ray.io/max-disrupted-replicas` (`docs/lifecycle.md#evictions`). If
    unset, any number.
    """


class Topology(_Section):
    """Labels of Ray nodes; see `docs/scheduling.md#labels-of-ray-nodes`."""

    zones: Zones = "auto"
    """Whether Ray nodes get labels for their zone and region. `auto` enables them on Kubernetes
    1.35 and later, where the API server copies these labels from the Node to the pod.
    """

    node_labels: list[str] = []
    """Labels of Nodes that a RayCluster may pass on to Ray, such as `nvidia.com/gpu.clique`. If not
    empty, every pod that is bound in the namespaces of the webhook gets them as annotations.
    """


class Ignore(_Section):
    """The label `admission.ray.io/ignore`, which exempts objects from the webhook.

    On a namespace the label always applies, because API servers do not call the webhook for objects
    there.
    """

    rayclusters: bool = True
    """Honour the `ignore` label on RayClusters, RayJobs, RayServices and RayCronJobs. If true,
    anyone who can edit an object can exempt it. Use the same value for all processes.
    """


class Settings(_Section):
    """All settings."""

    installation: Installation = Installation()
    listen: Listen = Listen()
    serving: Serving = Serving()
    tls: Tls = Tls()
    log: LogSettings = LogSettings()
    validation: ValidationSettings = ValidationSettings()
    affinity: AffinitySettings = AffinitySettings()
    startup: Startup = Startup()
    termination: Termination = Termination()
    disruption: Disruption = Disruption()
    topology: Topology = Topology()
    ignore: Ignore = Ignore()

    devices: Annotated[dict[str, list[str]], AfterValidator(_each(own_device))] = {}
    """Additional devices, whose hosts get the same rendezvous as those of GPUs: by name, the
    extended resources with which containers request them, such as `habana.ai/gaudi`. A text without
    a slash is a suffix of the names of resource claims.
    """

    profiles: Annotated[dict[str, dict[str, str]], AfterValidator(_each(own_profile))] = {}
    """Additional profiles: by name, variables and their values. `{hosts}`, `{rank}`, `{master}`,
    `{devices}` and variables such as `{MASTER_ADDR}` are replaced in values.
    """

    standalone: bool = False
    """Serve without Kubernetes: RayClusters and pods are read from `state`, and admitted pods count
    as created.
    """

    state: list[Path] = []
    """Files or directories (YAML or JSON) with the RayClusters and pods of a standalone process."""

    kubeconfig: Path | None = None
    """Kubeconfig for the API server; without it, the service account of the pod."""

    namespaces: list[str] = []
    """Namespaces to watch; empty means all. The webhook configuration must not cover pods in other
    namespaces.
    """


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of the settings file, without references."""
    json_schema = Settings.model_json_schema()
    inlined: dict[str, Any] = _inline_references(
        {key: value for key, value in json_schema.items() if key != "$defs"}, json_schema["$defs"]
    )
    head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}}
    return inlined | {"properties": head | inlined["properties"], "required": [*head]}


@cache
def known() -> dict[str, Mapping[str, Any]]:
    """Return the schema of every setting by its dotted name, in order, without the sections."""
    schemas_by_name: dict[str, Mapping[str, Any]] = {}
    for name, node in schema()["properties"].items():
        if "properties" in node:
            schemas_by_name |= {f"{name}.{key}": inner for key, inner in node["properties"].items()}
        elif "const" not in node:
            schemas_by_name[name] = node
    return schemas_by_name


def _inline_references(node: Any, definitions: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return a schema with its references inlined and descriptions in one line; sections do not
    refer to their parents.
    """
    if isinstance(node, list):
        return [_inline_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _inline_references(definitions[node["$ref"].rpartition("/")[2]] | rest, definitions)
    return {
        key: " ".join(value.split())
        if key == "description" and isinstance(value, str)
        else _inline_references(value, definitions)
        for key, value in node.items()
    }
