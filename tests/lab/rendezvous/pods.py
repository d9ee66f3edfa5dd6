"""The pods of a file's RayClusters, completed, with variables as a kubelet resolves them."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import jsonpatch

from tests.lab.program import Json
from webhook.admission.binding_handler import BindingHandler
from webhook.api.objects import Strings
from webhook.api.review import AdmissionRequest, GroupVersionKind, GroupVersionResource

_KEY: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_REFERENCE: Final = re.compile(r"\$\((\w+)\)")


class Pod:
    """A pod that was admitted. `name` is one that the API server may have made up."""

    def __init__(self, manifest: Json, number: int) -> None:
        self._manifest = manifest
        self._meta: Json = manifest["metadata"]
        self._spec: Json = manifest["spec"]
        self._meta["name"] = f"{self._meta.get('generateName', '')}{number}"
        self.head = self._meta["labels"]["ray.io/node-type"] == "head"

    @property
    def host(self) -> str:
        name: str = self._spec.get("hostname") or self._meta["name"]
        return name

    @property
    def names(self) -> list[str]:
        """How others find it: by the headless service, and a head by KubeRay's Service."""
        cluster, namespace = self._meta["labels"]["ray.io/cluster"], self._meta["namespace"]
        found = f"{cluster}-head-svc" if self.head else f"{self.host}.{self._spec['subdomain']}"
        service = f"{found}.{namespace}.svc"
        return [found, service, f"{service}.cluster.local"]

    @property
    def devices(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._container.get("resources", {}).get("limits", {})
        return found

    def environment(self, address: str) -> dict[str, str]:
        """Return the variables of its first container, as the kubelet of its node sets them.

        https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
        """
        found: dict[str, str] = {}
        for entry in self._container["env"]:
            path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            text = self._field(path, address) if path else entry.get("value", "")
            found[entry["name"]] = _REFERENCE.sub(lambda name: found.get(name[1], name[0]), text)
        return found

    def bind(self, labels: Strings) -> None:

        async def passed_on(node: str) -> Strings:
            assert node == "n"
            return labels

        binding = {"metadata": {}, "target": {"kind": "Node", "name": "n"}}
        kind = GroupVersionKind("", "v1", "Binding")
        resource = GroupVersionResource("", "v1", "pods")
        request = AdmissionRequest("u", kind, resource, "CREATE", "binding", object=binding)
        answer = asyncio.run(BindingHandler(passed_on)(request))
        patched = jsonpatch.apply_patch(binding, json.loads(answer.patch or b"[]"))
        merged = self._meta.get("annotations", {}) | patched["metadata"].get("annotations", {})
        self._meta["annotations"] = merged

    @property
    def _container(self) -> Json:
        container: Json = self._spec["containers"][0]
        return container

    def _field(self, path: str, address: str) -> str:
        if (key := _KEY.fullmatch(path)) is not None:
            return str(self._meta.get(key[1], {}).get(key[2], ""))
        if path in ("status.podIP", "status.hostIP"):
            return address
        return str(self._meta[path.removeprefix("metadata.")])


def admitted(file: Path) -> list[Pod]:
    command = [sys.executable, "-m", "webhook.cli.main", "preview", "-f", str(file), "-o", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [Pod(each, number) for number, each in enumerate(json.loads(done.stdout)["items"])]
