"""Settings of the service: flags, then environment, then a file, then the defaults here, each with
its reason.
"""

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from webhook.groups.drain import SECONDS_MAX
from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import read
from webhook.time_zones import TIME_ZONES
from webhook.validation.rule_settings import RuleSettings, parse_kuberay
from webhook.validation.ruleset import unknown_names

PREFIX: Final = "RAY_WEBHOOK_"
"""Of every environment variable that is a setting; two underscores stand between a section and its
setting.
"""

API_VERSION: Final = "config.admission.ray.io/v1alpha1"
KIND: Final = "Settings"
"""Of a file with settings."""

_BEGINNING: Final = f"begin it with the lines `apiVersion: {API_VERSION}` and `kind: {KIND}`"

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=600)]
Level = Annotated[
    Literal["off", "warn", "deny"],
    BeforeValidator(lambda value: "off" if value is False else value),
    WithJsonSchema({"enum": ["off", "warn", "deny", False]}),
]
"""What YAML reads `off` as, without quotes, means the same."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


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
    """How long a stopping process goes on answering, until endpoints and connections have moved
    away.
    """


class Tls(_Section):
    """The serving certificate, and those of clients."""

    source: Literal["files", "self-signed"] = "files"
    """Where the certificate comes from: `files`, such as a Secret of cert-manager, or
    `self-signed`, made by the webhook, which keeps it in a Secret that has to exist and may be
    empty.
    """

    certificate: Path = Path("/etc/ray-webhook/tls/tls.crt")
    """Certificate chain in PEM, as cert-manager names it in a Secret."""

    key: Path = Path("/etc/ray-webhook/tls/tls.key")
    """Private key in PEM, without a password."""

    client_ca: Path | None = None
    """Authorities in PEM; with them, only clients with a certificate of one of these are served.
    kube-apiserver shows one only when its admission configuration names it.
    """

    client_names: list[str] = []
    """Names (common name or DNS name) that a client's certificate may bear; empty allows every
    name. Needs `tls.client_ca`.
    """

    @model_validator(mode="after")
    def _names_need_authorities(self) -> Self:
        if self.client_names and self.client_ca is None:
            msg = (
                "client_names needs client_ca: a name means nothing without an authority that "
                "vouches for it"
            )
            raise ValueError(msg)
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

    levels: dict[str, Level] = {}
    """Level of a rule by its id, where it is not the default: `off`, `warn` or `deny`."""

    gates: dict[str, bool] = {}
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
    `docs/scheduling-groups.md` tells more.
    """

    publish: bool = False
    """Whether PodGroups are kept for these RayClusters: `controller` keeps them, `serve` warns each
    pod when nobody does. Set it for both alike.
    """


class Controller(_Section):
    """`ray-webhook controller`: the process that writes to the cluster."""

    events: bool = True
    """Whether RayClusters are told by events what is wrong with their replicas, and replicas are
    counted in the metrics; `docs/status.md` lists the events.
    """


class Dashboard(_Section):
    """`ray-webhook dashboard --in-cluster`: the page, for everybody whose token the API server
    knows; `docs/dashboard.md` tells more.
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
    """Resize in place; `docs/resize.md` tells more."""

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
    """The end of worker pods; `docs/termination.md` tells more."""

    drain_seconds: Annotated[int, Field(ge=0, le=SECONDS_MAX)] = 0
    """How long workers may finish what runs on them, in RayClusters without the annotation
    `admission.ray.io/drain-seconds`; 0 leaves their pods as they are.
    """


class Repair(_Section):
    """Replicas of several hosts that lost one, in RayClusters that ask for repair;
    `docs/repair.md` tells more.
    """

    enabled: bool = False
    """Whether `controller` repairs them. It needs the right to patch and delete pods."""

    per_hour: Annotated[int, Field(ge=1, le=1000)] = 6
    """How many replicas of one worker group are replaced within an hour."""


class Topology(_Section):
    """Where nodes of Ray are; `docs/locality.md` tells more."""

    zones: Literal["auto", "on", "off"] = "auto"
    """Whether Ray is told the zone and the region of its nodes. `auto` is: where the API server is
    of Kubernetes 1.35 or later, which copies these labels from the Node to the pod.
    """


class Ignore(_Section):
    """What the label `admission.ray.io/ignore` may take out of the webhook's hands.

    On a namespace it always does, as API servers do not ask about objects there.
    """

    rayclusters: bool = True
    """Whether it does on RayClusters, RayJobs, RayServices and RayCronJobs, so that whoever may
    write one may also leave the rules. Set it for all processes alike.
    """


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        nested_model_default_partial_update=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_shortcuts={
            "listen.host": "host",
            "listen.admin-port": "admin-port",
            "serving.port": "port",
        },
    )

    installation: Installation = Installation()
    listen: Listen = Listen()
    serving: Serving = Serving()
    tls: Tls = Tls()
    log: Log = Log()
    validation: Validation = Validation()
    scheduling: Scheduling = Scheduling()
    resize: Resize = Resize()
    affinity: Affinity = Affinity()
    termination: Termination = Termination()
    topology: Topology = Topology()
    repair: Repair = Repair()
    ignore: Ignore = Ignore()
    controller: Controller = Controller()
    dashboard: Dashboard = Dashboard()

    file: Path | None = None
    """YAML file with settings, nested as here; environment variables and flags override it. It
    begins with `apiVersion: config.admission.ray.io/v1alpha1` and `kind: Settings`.
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, the strongest first; flags stand before all of them."""
        del env_settings, dotenv_settings, file_secret_settings
        file = (
            init_settings.init_kwargs.get("file")
            if isinstance(init_settings, InitSettingsSource)
            else None
        )
        document = _document(file) if file else {}
        return (
            init_settings,
            _Environment(settings_cls),
            InitSettingsSource(settings_cls, init_kwargs=document),
        )


class _Environment(EnvSettingsSource):
    """Variables whose lists and maps are JSON, or as people write them: `a,b` and
    `key=value,other=value`.
    """

    # What the setting is
    def decode_complex_value(self, field_name: str, field: FieldInfo | None, value: str) -> Any:  # noqa: ANN401
        """Return a list or a map; everything else is JSON."""
        kind = get_origin(field.annotation) if field else None
        if kind not in {list, dict} or value.lstrip()[:1] in {"[", "{"}:
            return json.loads(value)
        items = [item.strip() for item in value.split(",") if item.strip()]
        if kind is list:
            return items
        pairs = [item.partition("=") for item in items]
        if not all(separator for _, separator, _ in pairs):
            msg = f"{field_name} is a map: write key=value,other=value"
            raise ValueError(msg)
        return {key.strip(): text.strip() for key, _, text in pairs}


class _ControllerSettings(Settings):
    """The same settings, with the short flags of `controller`."""

    model_config = SettingsConfigDict(
        cli_shortcuts={"listen.host": "host", "listen.admin-port": "port"},
    )


class _DashboardSettings(Settings):
    """The same settings, with the usage and the short flags of `dashboard`."""

    model_config = SettingsConfigDict(
        cli_prog_name="ray-webhook dashboard --in-cluster",
        cli_shortcuts={"dashboard.host": "host", "dashboard.port": "port"},
    )


_OF: Final = {
    "serve": Settings,
    "controller": _ControllerSettings,
    "dashboard": _DashboardSettings,
}
"""Settings by the command that reads them."""


class WrongSettingsError(Exception):
    """Settings that cannot be used. The message has a line for each, with its name, what it was,
    and what is allowed.
    """


Flags = CliSettingsSource[Settings]
"""The flags of a command, which a parser reads."""

_WORDS: Final = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "SECONDS",
    "Path": "PATH",
    "list[str]": "A,B",
    "list[Path]": "PATH,PATH",
    "dict[str,bool]": "NAME=BOOL,...",
    "dict[str,{off,warn,deny}]": "ID=LEVEL,...",
}
"""What a value is called in the help, by what pydantic calls it."""

_DEFAULT: Final = re.compile(r" \(default: (None|\[\]|\{\}|)\)")
_LIST: Final = re.compile(r"(?<=\(default: )\['(.*)'\](?=\))")


def flags(command: str, parser: argparse.ArgumentParser) -> Flags:
    """Add the flags of `serve` or `controller` to a parser, in words for people."""
    source: Flags = CliSettingsSource(_OF[command], root_parser=parser)
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to what was added
        if isinstance(action.metavar, str):
            action.metavar = _WORDS.get(action.metavar, action.metavar)
        said = _DEFAULT.sub("", action.help or "")
        said = said.replace("(default: True)", "(default)").replace(
            "(default: False)", "(default: no)"
        )
        action.help = _LIST.sub(lambda found: found[1].replace("', '", ","), said)
    return source


def read_settings(
    arguments: Sequence[str], command: str = "serve", parser: argparse.ArgumentParser | None = None
) -> Settings:
    """Return the settings in flags, environment and file. Raises WrongSettingsError; prints usage
    and exits for a wrong flag.

    `command` is the process: `serve`, `controller` or `dashboard`. `parser` has no flags yet.
    """
    _refuse_unknown(os.environ)
    file = _file(arguments, os.environ)
    source = flags(command, parser or argparse.ArgumentParser(f"ray-webhook {command}"))
    try:
        return _OF[command](_cli_settings_source=source(args=list(arguments)), file=file)
    except ValidationError as error:
        lines = [
            _explain(item["loc"], item["type"], item["msg"], item["input"])
            for item in error.errors()
        ]
        raise WrongSettingsError("\n".join(lines)) from None
    except SettingsError as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        raise WrongSettingsError(f"settings cannot be read: {error}{cause}") from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a file with settings, without references."""
    found = Settings.model_json_schema()
    inlined: dict[str, Any] = _inlined(
        {key: value for key, value in found.items() if key != "$defs"}, found["$defs"]
    )
    return inlined


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


def known(model: type[BaseModel] = Settings) -> dict[str, FieldInfo]:
    """Return every setting with its dotted name, in order; sections themselves are left out."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= {f"{name}.{inner}": info for inner, info in known(field.annotation).items()}
        else:
            found[name] = field
    return found


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper().replace(".", "__")


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """pydantic-settings skips variables that it does not know; a misspelt one would be silently
    without effect.
    """
    variables = {variable(name) for name in known()}
    sections = {variable(name.partition(".")[0]) for name in known()}
    wrong = sorted(
        name
        for name in environ
        if name.startswith(PREFIX) and not {name, name.partition("__")[0]} & sections
    )
    if wrong:
        close = [f"{name}{_neighbour(name, variables)}" for name in wrong]
        text = (
            f"unknown environment variables {', '.join(close)}; known are "
            f"{', '.join(sorted(variables))}"
        )
        hint = (
            "; variables of Kubernetes Services are switched off by `enableServiceLinks: false`"
            if _of_service(wrong)
            else ""
        )
        raise WrongSettingsError(text + hint)


def _of_service(variables: Iterable[str]) -> bool:
    return any(name.endswith(("_SERVICE_HOST", "_TCP", "_PORT")) for name in variables)


def _file(arguments: Sequence[str], environ: Mapping[str, str]) -> Path | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--file", type=Path)
    named: Path | None = parser.parse_known_args(arguments)[0].file
    text = environ.get(variable("file"))
    file = named or (Path(text) if text else None)
    if file is not None and not file.is_file():
        raise WrongSettingsError(f"setting file: {file} is not there, or is not a file")
    return file


def _document(file: Path) -> dict[str, Any]:
    """Return the settings in a file, without its first two lines. Raises WrongSettingsError."""
    try:
        documents = [manifest.document for manifest in read(str(file), file.read_bytes())]
    except (ManifestError, OSError) as error:
        raise WrongSettingsError(f"setting file: {error}") from None
    if len(documents) == 1 and not isinstance(documents[0], dict):
        raise WrongSettingsError(f"setting file: {file} holds no map: {_BEGINNING}")
    if len(documents) != 1:
        raise WrongSettingsError(
            f"setting file: {file} has to hold one document with settings, and has {len(documents)}"
        )
    found = dict(documents[0])
    version, kind = found.pop("apiVersion", None), found.pop("kind", None)
    if (version, kind) != (API_VERSION, KIND):
        raise WrongSettingsError(
            f"setting file: {file} has apiVersion {version!r} and kind {kind!r}; {_BEGINNING}"
        )
    return found


def _explain(place: tuple[int | str, ...], kind: str, text: str, got: object) -> str:
    name = ".".join(map(str, place))
    if kind != "extra_forbidden":
        return f"setting {name}: {text}" + ("" if isinstance(got, dict) else f" (got {got!r})")
    section = name.rpartition(".")[0]
    siblings = _siblings(section)
    hint = _neighbour(name, siblings)
    return (
        f"setting {name}: not permitted, as there is none of this name{hint}; known are "
        f"{', '.join(siblings)}"
    )


def _siblings(section: str) -> list[str]:
    """Return what a section has, settings and sections, in order."""
    depth = len(section.split(".")) if section else 0
    inside = [name.split(".") for name in known() if not section or name.startswith(f"{section}.")]
    return list(dict.fromkeys(".".join(words[: depth + 1]) for words in inside))


def _neighbour(name: str, others: Iterable[str]) -> str:
    """Return a question, when one of the others looks like this name."""
    close = get_close_matches(name, sorted(others), n=1, cutoff=0.75)
    return f" (did you mean {close[0]}?)" if close else ""
