"""Rules of pod templates, one for each family of checks."""

from collections.abc import Iterable
from typing import Final

from webhook.validation.finding import Fault
from webhook.validation.pods.amounts import LIMITS, QUANTITIES
from webhook.validation.pods.containers import (
    IMAGES,
    LIFECYCLE,
    MOUNTS,
    NAMES,
    PORTS,
    PROBES,
    VARIABLES,
)
from webhook.validation.pods.fields import LABELS, VALUES
from webhook.validation.pods.placement import PLACEMENT
from webhook.validation.pods.security import SECURITY
from webhook.validation.pods.volumes import VOLUMES
from webhook.validation.ray_object import RayObject
from webhook.validation.rule import API_SERVER, deny


def pod_value_unknown(ray_object: RayObject) -> Iterable[Fault]:
    """A value that is not among the allowed values of a field of a pod.

    `restartPolicy: never` or `imagePullPolicy: always` pass the CRD of a RayCluster. The API server
    refuses each pod.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
    """
    return ray_object.faults_of(VALUES)


def pod_name_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """An invalid or duplicate name of a container, a service account, a class or a host.

    A placeholder such as `$KSA_NAME` is invalid too: replace it before you apply the file. The API
    server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """
    return ray_object.faults_of(NAMES)


def pod_image_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A container without an image.

    KubeRay sets no default image, and the API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/images/
    """
    return ray_object.faults_of(IMAGES)


def pod_quantity_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A resource with an unknown name or an impossible amount.

    CPU and memory are not negative, devices are whole numbers, and huge pages are multiples of
    their size. The API server refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    """
    return ray_object.faults_of(QUANTITIES)


def pod_limit_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A request above its limit, or a device whose request and limit differ.

    Devices cannot be overcommitted, and Ray and KubeRay read their limits: the limits of TPUs,
    GPUs, Neuron cores and network cards must be set, and equal to the requests. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """
    return ray_object.faults_of(LIMITS)


def pod_variable_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A variable without a name, or with a source that pods do not offer.

    A variable has a value or one source. A source is a field of the pod, a resource of a container,
    or a key of a ConfigMap or Secret. The API server refuses each pod.

    https://kubernetes.io/docs/tasks/inject-data-application/environment-variable-expose-pod-information/
    """
    return ray_object.faults_of(VARIABLES)


def pod_port_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A port that is out of range, or an invalid or duplicate name of a port.

    KubeRay selects the ports of the dashboard, of clients and of metrics by name. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports
    """
    return ray_object.faults_of(PORTS)


def pod_volume_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A volume with two sources, or with a source or a file that lacks a required name.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/
    """
    return ray_object.faults_of(VOLUMES)


def pod_mount_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A mount of a volume that the template does not have.

    KubeRay adds the volume `shared-mem` only if Ray's container mounts no volume at `/dev/shm`. The
    API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/#background
    """
    return ray_object.faults_of(MOUNTS)


def pod_probe_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A probe without an action, with two actions, or with an invalid port.

    KubeRay adds the probes that Ray's container lacks, but does not complete partial ones. The API
    server refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """
    return ray_object.faults_of(PROBES)


def pod_lifecycle_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A hook without an action, or a grace period or restart policy that a pod cannot have.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
    """
    return ray_object.faults_of(LIFECYCLE)


def pod_placement_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A selector, affinity, toleration or topology spread constraint that no scheduler can satisfy.

    An empty list of `nodeSelectorTerms` selects no node, and a toleration `Exists` has no value.
    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """
    return ray_object.faults_of(PLACEMENT)


def pod_label_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """An invalid label or annotation of a template.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
    """
    return ray_object.faults_of(LABELS)


def pod_security_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A security context that contradicts itself, or an invalid kernel parameter.

    The API server refuses each pod.

    https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    """
    return ray_object.faults_of(SECURITY)


PODS: Final = (
    deny(pod_value_unknown, by=API_SERVER),
    deny(pod_name_invalid, by=API_SERVER),
    deny(pod_image_invalid, by=API_SERVER),
    deny(pod_quantity_invalid, by=API_SERVER),
    deny(pod_limit_invalid, by=API_SERVER),
    deny(pod_variable_invalid, by=API_SERVER),
    deny(pod_port_invalid, by=API_SERVER),
    deny(pod_volume_invalid, by=API_SERVER),
    deny(pod_mount_invalid, by=API_SERVER),
    deny(pod_probe_invalid, by=API_SERVER),
    deny(pod_lifecycle_invalid, by=API_SERVER),
    deny(pod_placement_invalid, by=API_SERVER),
    deny(pod_label_invalid, by=API_SERVER),
    deny(pod_security_invalid, by=API_SERVER),
)
