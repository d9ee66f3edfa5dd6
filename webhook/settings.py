"""Settings of the service: flags, then environment, then a file, then the defaults here, each with its reason."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=600)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Serving(_Section):
    """The two listeners."""

    host: str = "0.0.0.0"  # noqa: S104 - a pod serves its own address
    """Address of both listeners."""

    port: Port = 9443
    """HTTPS port for reviews; 0 takes any free one. Not 443, which needs a privilege."""

    admin_port: Port = 8080
    """Plain HTTP port for `/livez`, `/readyz` and `/metrics`; 0 takes any free one."""

    drain_seconds: Seconds = 0
    """How long a stopping process goes on answering, until endpoints and connections have moved away."""


class Tls(_Section):
    """The serving certificate."""

    certificate: Path = Path("/etc/ray-webhook/tls/tls.crt")
    """Certificate chain in PEM, as cert-manager names it in a Secret."""

    key: Path = Path("/etc/ray-webhook/tls/tls.key")
    """Private key in PEM, without a password."""


class Log(_Section):
    """The journal on standard output."""

    admissions: Literal["all", "denied"] = "all"
    """Which reviews get a line. `denied` saves a few microseconds a review."""


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        env_prefix="RAY_WEBHOOK_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        nested_model_default_partial_update=True,
        cli_prog_name="ray-webhook serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_shortcuts={
            "serving.host": "host",
            "serving.port": "port",
            "serving.admin-port": "admin-port",
        },
    )
    file: ClassVar[Path | None] = None

    serving: Serving = Serving()
    tls: Tls = Tls()
    log: Log = Log()

    standalone: bool = False
    """Serve without Kubernetes: RayClusters and pods come from `state`, and a pod that was admitted counts as created."""

    state: list[Path] = []
    """Files or directories (YAML or JSON) with the RayClusters and pods that stand in for the cluster."""

    kubeconfig: Path | None = None
    """Kubeconfig for the API server; without it, the configuration that a pod has inside the cluster."""

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
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=cls.file)
