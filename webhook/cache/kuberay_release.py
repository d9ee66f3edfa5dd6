"""KubeRay's release, by the fields of the stored CustomResourceDefinition of RayClusters.

The operator's Deployment would be more precise, but its name and image vary, and reading it
requires more rights. If the CRD is older than the operator, as after an upgrade with Helm alone,
the rules deny less than they could.
"""

from collections.abc import Iterator
from typing import Final, Optional

from msgspec import Struct, field

from webhook.kubeclient.client import METADATA, Api, decode_response
from webhook.kubeclient.discovery import Question
from webhook.validation.crd import release_of
from webhook.validation.finding import KubeRay

PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusters.ray.io"
_VERSION: Final = "v1"


class _Schema(Struct):
    properties: dict[str, "_Schema"] = {}
    items: Optional["_Schema"] = None


class _Validation(Struct, rename={"schema": "openAPIV3Schema"}):
    schema: _Schema = field(default_factory=_Schema)


class _CrdVersion(Struct, rename={"validation": "schema"}):
    name: str
    validation: _Validation = field(default_factory=_Validation)


class _CrdSpec(Struct):
    versions: list[_CrdVersion] = []


class _Meta(Struct):
    uid: str = ""
    generation: int = 0


class _Definition(Struct):
    metadata: _Meta = field(default_factory=_Meta)
    spec: _CrdSpec = field(default_factory=_CrdSpec)


class KubeRayStored(Question[KubeRay]):
    """The release of the stored CRD. Each query reads its metadata, and the whole CRD, more than a
    megabyte, only after a change. It requires the right to get this object.
    """

    unknown = "KubeRay's release is not known, so rules that it decides only warn"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._seen: _Meta | None = None
        self._release: KubeRay | None = None

    async def ask(self) -> KubeRay | None:
        """Return the release, or None without a CRD or for an unknown release. Raises ApiError."""
        partial_definition = await self._api.find(PATH, _Definition, accept=METADATA)
        if partial_definition is None:
            self._seen = self._release = None
        # The generation changes with the spec only, so that status updates cost no large read.
        elif partial_definition.metadata != self._seen:
            definition = await self._api.read(PATH, _Definition)
            self._release, self._seen = _release_of(definition), definition.metadata
        return self._release

    def describe(self, found: KubeRay | None) -> str:
        if self._seen is None:
            return "RayClusters are not served: KubeRay's CRDs are missing"
        if found is None:
            return "the CRD of RayClusters is of no known release of KubeRay"
        return f"the CRD of RayClusters is that of KubeRay {'.'.join(map(str, found))}"


def release_in(body: bytes) -> KubeRay | None:
    """Return the release of KubeRay with this CustomResourceDefinition of RayClusters, in JSON;
    None for an unknown release. Raises ApiError.
    """
    return _release_of(decode_response(body, _Definition))


def _release_of(definition: _Definition) -> KubeRay | None:
    return release_of(frozenset(_fields(definition)))


def _fields(definition: _Definition) -> Iterator[str]:
    """Yield the fields of a spec and their subfields, in the format of `release_of`."""
    for version in definition.spec.versions:
        spec = version.validation.schema.properties.get("spec")
        for name, below in spec.properties.items() if spec and version.name == _VERSION else ():
            yield name
            yield from (f"{name}.{subfield}" for subfield in (below.items or below).properties)
