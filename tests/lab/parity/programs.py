"""The programs that answer with KubeRay's and Kubernetes' own code: a line in, a line out."""

from typing import Any

from msgspec import Struct

from tests.lab.parity.build import Built
from tests.lab.program import Program


class Child(Struct):
    """A Pod, or a Job of a pod, that KubeRay makes of a part of an object."""

    part: str
    object: Any


class Verdict(Struct):
    """What the API server and KubeRay say of an object; with nothing said, it is taken."""

    schema: list[str] = []
    decode: str = ""
    operator: str = ""
    panic: str = ""
    unknown: str = ""
    children: list[Child] = []

    @property
    def stored(self) -> bool:
        return not self.schema and not self.unknown

    @property
    def refusal(self) -> str:
        """Return why KubeRay does not work on the object, or nothing."""
        if self.panic:
            return f"panic: {self.panic}"
        return f"decode: {self.decode}" if self.decode else self.operator


class Oracle(Program):
    """KubeRay's code of one version."""

    def __init__(self, built: Built) -> None:
        super().__init__(built.program, built.crds)

    def ask(
        self,
        value: Any,  # noqa: ANN401 - JSON
        *,
        gates: dict[str, bool] | None = None,
        make: bool = False,
    ) -> Verdict:
        """Return the verdict on one object, with gates that differ from those of the version; with
        `make`, also what KubeRay makes of it.
        """
        return self.answer({"object": value, "gates": gates, "make": make}, Verdict)


class ApiServer(Program):
    """Kubernetes' checks of Pods and Jobs, of one version."""

    def ask(self, value: Any) -> list[str]:  # noqa: ANN401 - JSON
        """Return why the API server would not create an object; nothing when it would."""
        return self.answer(value, list[str])
