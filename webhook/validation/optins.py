"""Annotations of the webhook: values that it does not know."""

from collections.abc import Iterator
from typing import Final

from webhook.groups.optins import OPT_INS
from webhook.kube.review import NOT_SUPPORTED
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject
from webhook.validation.rule import deny


def annotation_value_invalid(ray_object: RayObject) -> Iterator[Fault]:
    """An annotation of the webhook with a value that it does not know.

    The pods would come up without what the annotation asks for, and only KubeRay would be told.
    Annotations with rules of their own are left to these.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
    """
    for row in OPT_INS:
        if row.rule == "annotation-value-invalid":
            field = ray_object.annotation(row.annotation)
            if problem := row.problem(field.text):
                yield Fault(field, problem, NOT_SUPPORTED)


OPT_IN_VALUES: Final = (deny(annotation_value_invalid),)
