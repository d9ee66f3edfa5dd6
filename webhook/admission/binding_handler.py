"""Bindings of pods: a binding copies labels of the Node to the pod as annotations, so that
variables of its containers can refer to them.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
"""

from collections.abc import Awaitable, Callable
from typing import Any

from webhook.api.objects import Strings, map_of
from webhook.api.review import ALLOWED, AdmissionRequest, Answer
from webhook.mutation.fold import Operation, add_entries, encode

Labels = Callable[[str], Awaitable[Strings]]
"""Returns the labels of a Node that are copied."""


class BindingHandler:
    """Answers reviews of `pods/binding`. The API server merges the annotations of a binding into
    the pod.
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    async def __call__(self, request: AdmissionRequest[Any]) -> Answer:
        """Return the annotations to add; none for a binding without a Node."""
        binding = request.object if isinstance(request.object, dict) else {}
        target, meta = (map_of(binding.get(name)) for name in ("target", "metadata"))
        name = target.get("name")
        # The API server accepts a Binding without the kind of its target.
        if target.get("kind", "Node") not in ("", "Node") or not isinstance(name, str) or not name:
            return ALLOWED
        labels = await self._labels(name)
        if not labels:
            return ALLOWED
        if not isinstance(binding.get("metadata"), dict):
            # A patch whose parent is missing fails the request, even with failurePolicy Ignore.
            return Answer(patch=encode([Operation("add", "/metadata", {"annotations": labels})]))
        annotations = meta.get("annotations")
        present = annotations if isinstance(annotations, dict) else None
        return Answer(patch=encode(add_entries("/metadata/annotations", present, labels)))
