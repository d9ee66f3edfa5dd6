"""The rules of pod templates, one for each family of checks."""

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
    """A value that is none of those that a field of a pod may have.

    `restartPolicy: never` or `imagePullPolicy: always` pass the CRD of a RayCluster. The API server
    refuses each pod.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
    """
    return ray_object.faults_of(VALUES)


def pod_name_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A name of a container, an account, a class or a host that is unfit, or taken.

    A placeholder such as `$KSA_NAME` is one too: replace it before you apply the file. The API
    server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """
    return ray_object.faults_of(NAMES)


def pod_image_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A container without an image.

    KubeRay fills in no image, and the API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/images/
    """
    return ray_object.faults_of(IMAGES)


def pod_quantity_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A resource that no node has by that name, or an amount of it that no one can have.

    Cores and memory are not negative, devices come whole, huge pages by their size. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    """
    return ray_object.faults_of(QUANTITIES)


def pod_limit_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A request above its limit, or a device whose request and limit differ.

    Devices cannot be overcommitted, and Ray and KubeRay read their limits: those of TPUs, GPUs,
    Neuron cores and network cards must be given, and equal to the requests. The API server refuses
    each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """
    return ray_object.faults_of(LIMITS)


def pod_variable_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A variable that has no name, or a source that pods do not offer.

    A variable has a value or one source. A source is a field of the pod, a resource of a container,
    or a key of a ConfigMap or Secret. The API server refuses each pod.

    https://kubernetes.io/docs/tasks/inject-data-application/environment-variable-expose-pod-information/
    """
    return ray_object.faults_of(VARIABLES)


def pod_port_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A port that is out of range, or a name of a port that is unfit or taken.

    KubeRay finds the ports of the dashboard, of clients and of metrics by name. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports
    """
    return ray_object.faults_of(PORTS)


def pod_volume_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A volume with two sources, or with a source or a file that names nothing.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/
    """
    return ray_object.faults_of(VOLUMES)


def pod_mount_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A mount of a volume that the template does not have.

    KubeRay adds the volume `shared-mem` only when Ray's container mounts nothing at `/dev/shm`. The
    API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/#background
    """
    return ray_object.faults_of(MOUNTS)


def pod_probe_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A probe that does nothing, or two things, or reaches no port.

    KubeRay fills in the probes that Ray's container lacks, not parts of one. The API server refuses
    each pod.

    https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """
    return ray_object.faults_of(PROBES)


def pod_lifecycle_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A hook that does nothing, or a period or policy of restarting that a pod cannot have.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
    """
    return ray_object.faults_of(LIFECYCLE)


def pod_placement_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A selector, affinity, toleration or rule of spreading that no scheduler can follow.

    An empty list of `nodeSelectorTerms` selects nothing, and a toleration `Exists` has no value.
    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """
    return ray_object.faults_of(PLACEMENT)


def pod_label_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A label or an annotation of a template that is none.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
    """
    return ray_object.faults_of(LABELS)


def pod_security_invalid(ray_object: RayObject) -> Iterable[Fault]:
    """A security context that contradicts itself, or a kernel parameter that is none.

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
