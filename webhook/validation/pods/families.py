"""Families of checks of pod templates: each is a rule, with its documentation."""

from collections.abc import Mapping
from typing import Final

VALUES: Final = "pod-value-unknown"
NAMES: Final = "pod-name-invalid"
IMAGES: Final = "pod-image-invalid"
QUANTITIES: Final = "pod-quantity-invalid"
LIMITS: Final = "pod-limit-invalid"
VARIABLES: Final = "pod-variable-invalid"
PORTS: Final = "pod-port-invalid"
VOLUMES: Final = "pod-volume-invalid"
MOUNTS: Final = "pod-mount-invalid"
PROBES: Final = "pod-probe-invalid"
LIFECYCLE: Final = "pod-lifecycle-invalid"
PLACEMENT: Final = "pod-placement-invalid"
LABELS: Final = "pod-label-invalid"
SECURITY: Final = "pod-security-invalid"

FAMILIES: Final[Mapping[str, str]] = {
    VALUES: """A value that is not among the allowed values of a field of a pod.

    `restartPolicy: never` or `imagePullPolicy: always` pass the CRD of a RayCluster. The API server
    refuses each pod.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
    """,
    NAMES: """An invalid or duplicate name of a container, a service account, a class or a host.

    A placeholder such as `$KSA_NAME` is invalid too: replace it before you apply the file. The API
    server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
    """,
    IMAGES: """A container without an image.

    KubeRay sets no default image, and the API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/images/
    """,
    QUANTITIES: """A resource with an unknown name or an impossible amount.

    CPU and memory are not negative, devices are whole numbers, and huge pages are multiples of
    their size. The API server refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
    """,
    LIMITS: """A request above its limit, or a device whose request and limit differ.

    Devices cannot be overcommitted, and Ray and KubeRay read their limits: the limits of TPUs,
    GPUs, Neuron cores and network cards must be set, and equal to the requests. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """,
    VARIABLES: """A variable without a name, or with a source that pods do not offer.

    A variable has a value or one source. A source is a field of the pod, a resource of a container,
    or a key of a ConfigMap or Secret. The API server refuses each pod.

    https://kubernetes.io/docs/tasks/inject-data-application/environment-variable-expose-pod-information/
    """,
    PORTS: """A port that is out of range, or an invalid or duplicate name of a port.

    KubeRay selects the ports of the dashboard, of clients and of metrics by name. The API server
    refuses each pod.

    https://kubernetes.io/docs/concepts/services-networking/service/#field-spec-ports
    """,
    VOLUMES: """A volume with two sources, or with a source or a file that lacks a required name.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/
    """,
    MOUNTS: """A mount of a volume that the template does not have.

    KubeRay adds the volume `shared-mem` only if Ray's container mounts no volume at `/dev/shm`. The
    API server refuses each pod.

    https://kubernetes.io/docs/concepts/storage/volumes/#background
    """,
    PROBES: """A probe without an action, with two actions, or with an invalid port.

    KubeRay adds the probes that Ray's container lacks, but does not complete partial ones. The API
    server refuses each pod.

    https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """,
    LIFECYCLE: """A hook without an action, or a grace period or restart policy that a pod cannot
    have.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
    """,
    PLACEMENT: """A selector, affinity, toleration or topology spread constraint that no scheduler
    can satisfy.

    An empty list of `nodeSelectorTerms` selects no node, and a toleration `Exists` has no value.
    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """,
    LABELS: """An invalid label or annotation of a template.

    The API server refuses each pod.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
    """,
    SECURITY: """A security context that contradicts itself, or an invalid kernel parameter.

    The API server refuses each pod.

    https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
    """,
}
