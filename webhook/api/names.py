"""Labels, annotations, variables, resources and file names that the webhook reads or writes, each
defined once, with its source.
"""

from typing import Final

# KubeRay puts these labels on every Ray pod; a template cannot override them.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
LABEL_CLUSTER: Final = "ray.io/cluster"
LABEL_GROUP: Final = "ray.io/group"
LABEL_NODE_TYPE: Final = "ray.io/node-type"
NODE_TYPE_HEAD: Final = "head"
NODE_TYPE_WORKER: Final = "worker"
HEAD_GROUP: Final = "headgroup"
WAIT_FOR_HEAD: Final = "wait-gcs-ready"
"""KubeRay's init container of worker pods, which ends when the head is ready.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
"""

# `"true"` on the workers of a RayService, whose readiness probe checks Ray Serve.
LABEL_SERVE: Final = "ray.io/serve"
ENABLE_SERVE_SERVICE: Final = "ray.io/enable-serve-service"

# The identity of a worker pod. KubeRay 1.5+ sets these behind its feature gate
# RayMultiHostIndexing.
LABEL_REPLICA_INDEX: Final = "ray.io/worker-group-replica-index"
LABEL_REPLICA_NAME: Final = "ray.io/worker-group-replica-name"
LABEL_HOST_INDEX: Final = "ray.io/replica-host-index"
IDENTITY_LABELS: Final = (LABEL_REPLICA_INDEX, LABEL_REPLICA_NAME, LABEL_HOST_INDEX)

# `<group>-<n>`: Ray's autoscaler (v1) reads it to delete the pods of a TPU slice together.
# https://github.com/ray-project/ray/pull/43470
LABEL_LEGACY_REPLICA_INDEX: Final = "replicaIndex"

# Labels and annotations of this webhook, all on the RayCluster. `webhook/groups/annotations.py`
# defines their values.
PREFIX: Final = "admission.ray.io/"
LABEL_IGNORE: Final = PREFIX + "ignore"
LABEL_RESERVATIONS: Final = PREFIX + "reservations"
ANNOTATION_RESERVATIONS: Final = PREFIX + "reservations"
"""On Leases that contain reservations: the label that selects them, and the annotation with the
content.
"""
ANNOTATION_HOLDER: Final = PREFIX + "holder"
"""On a worker pod: the holder of its reservation."""
ANNOTATION_TOPOLOGY_KEY: Final = PREFIX + "topology-key"
ANNOTATION_PROFILES: Final = PREFIX + "profiles"
ANNOTATION_DRAIN_SECONDS: Final = PREFIX + "drain-seconds"
ANNOTATION_KEEP_NODES: Final = PREFIX + "keep-nodes"
ANNOTATION_MAX_DISRUPTED: Final = PREFIX + "max-disrupted-replicas"
ANNOTATION_REPAIR: Final = PREFIX + "repair"
ANNOTATION_RESTART: Final = PREFIX + "restart"
RESTART_REPLICA: Final = "replica"
ANNOTATION_REPLICA_LABEL: Final = PREFIX + "replica-label"
ANNOTATION_NODE_LABELS: Final = PREFIX + "node-labels"
ANNOTATION_SCHEDULING_GROUP: Final = PREFIX + "scheduling-group"
ANNOTATION_COMPUTE_DOMAIN: Final = PREFIX + "compute-domain"
LABEL_COMPUTE_DOMAIN: Final = ANNOTATION_COMPUTE_DOMAIN
"""On a RayCluster: which pods share a ComputeDomain. On these pods: the same value."""
ANNOTATION_SHARD_GROUP: Final = PREFIX + "shard-group"
ANNOTATION_SHARD_INDEX: Final = PREFIX + "shard-index"
ANNOTATION_SHARD_COUNT: Final = PREFIX + "shard-count"

# On worker pods of RayClusters with repair enabled: that admission assigned the identity, and why
# the pod is about to be deleted.
ANNOTATION_IDENTITY: Final = PREFIX + "identity"
IDENTITY_ASSIGNED: Final = "assigned"
LABEL_MARKED_FOR_DELETION: Final = PREFIX + "marked-for-deletion"

# On PodGroups of this webhook: the API server sets the default priority class if none is given.
ANNOTATION_PRIORITY_CLASS: Final = PREFIX + "priority-class"

# https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "ray-webhook"

# The shard group and shard index of a RayCluster, for deployments with one cluster per shard.
RAY_SHARD_GROUP: Final = "RAY_SHARD_GROUP"
RAY_SHARD_INDEX: Final = "RAY_SHARD_INDEX"
RAY_SHARD_COUNT: Final = "RAY_SHARD_COUNT"

RAYCLUSTER_KIND: Final = "RayCluster"
RAY_GROUP: Final = "ray.io"

# https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
FINALIZER_POD_GROUP: Final = "scheduling.k8s.io/podgroup-protection"

# ComputeDomains of NVIDIA's DRA driver, and the API of resource claims that they need.
# https://github.com/NVIDIA/k8s-dra-driver-gpu/blob/main/api/nvidia.com/resource/v1beta1/computedomain.go
COMPUTE_DOMAIN_GROUP: Final = "resource.nvidia.com"
COMPUTE_DOMAIN_VERSION: Final = "v1beta1"
COMPUTE_DOMAIN_KIND: Final = "ComputeDomain"
CLAIM_COMPUTE_DOMAIN: Final = "imex-channel"
"""The name of the webhook's claim in a pod."""
RESOURCE_CLAIM_GROUP: Final = "resource.k8s.io"
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"

# Autoscalers of nodes leave the node of a pod with these annotations alone.
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
NODE_COMPUTE_CLASS: Final = "cloud.google.com/compute-class"

# Extended resources of devices.
RESOURCE_TPU: Final = "google.com/tpu"
RESOURCE_GPU_SUFFIX: Final = "gpu"
RESOURCE_MIG_PREFIX: Final = "nvidia.com/mig-"
RESOURCE_AMD_GPU: Final = "amd.com/gpu"
RESOURCE_NEURON_CORE: Final = "aws.amazon.com/neuroncore"
RESOURCES_NEURON: Final = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")

# Node labels of GKE TPU node pools.
# https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
NODE_TPU_ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
NODE_TPU_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
NODE_GPU_ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
NODE_POOL: Final = "cloud.google.com/gke-nodepool"
COMPUTE_CLASS: Final = "cloud.google.com/compute-class"

# Annotations of pods: the slice of a replica, if the selected nodes belong to a larger slice or to
# none yet; and the opt-out of topology checks.
# https://github.com/ai-on-gke/kuberay-tpu-webhook
ANNOTATION_SLICE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-slice-topology"
ANNOTATION_SKIP_TPU_CHECK: Final = "cloud.google.com/skip-tpu-webhook-check"

# Variables that Ray and libtpu read on a TPU host.
# https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
TPU_WORKER_ID: Final = "TPU_WORKER_ID"
TPU_WORKER_HOSTNAMES: Final = "TPU_WORKER_HOSTNAMES"
TPU_NAME: Final = "TPU_NAME"
TPU_TOPOLOGY: Final = "TPU_TOPOLOGY"
TPU_ACCELERATOR_TYPE: Final = "TPU_ACCELERATOR_TYPE"
TPU_DEVICE_PLUGIN_HOST_IP: Final = "TPU_DEVICE_PLUGIN_HOST_IP"
TPU_DEVICE_PLUGIN_ADDR: Final = "TPU_DEVICE_PLUGIN_ADDR"
TPU_PROCESS_ADDRESSES: Final = "TPU_PROCESS_ADDRESSES"
TPU_PROCESS_PORT: Final = "TPU_PROCESS_PORT"

# Variables that TorchTPU reads.
# https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
TORCH_TPU_TOPOLOGY: Final = "TORCH_TPU_TOPOLOGY"
TORCH_TPU_SLICEBUILDER_ADDRESSES: Final = "TORCH_TPU_SLICEBUILDER_ADDRESSES"

# Variables of a job that spans several TPU slices.
# https://github.com/ray-project/ray/blob/master/python/ray/util/tpu.py
MEGASCALE_NUM_SLICES: Final = "MEGASCALE_NUM_SLICES"
MEGASCALE_SLICE_ID: Final = "MEGASCALE_SLICE_ID"
MEGASCALE_COORDINATOR_ADDRESS: Final = "MEGASCALE_COORDINATOR_ADDRESS"
MEGASCALE_PORT: Final = "MEGASCALE_PORT"

# Variables of multi-node rendezvous: torchrun, Lightning, vLLM, NCCL.
# https://docs.pytorch.org/docs/stable/elastic/run.html
NNODES: Final = "NNODES"
NODE_RANK: Final = "NODE_RANK"
MASTER_ADDR: Final = "MASTER_ADDR"
MASTER_PORT: Final = "MASTER_PORT"
PET_NNODES: Final = "PET_NNODES"
PET_NODE_RANK: Final = "PET_NODE_RANK"
PET_MASTER_ADDR: Final = "PET_MASTER_ADDR"
PET_MASTER_PORT: Final = "PET_MASTER_PORT"
PET_NPROC_PER_NODE: Final = "PET_NPROC_PER_NODE"
VLLM_HOST_IP: Final = "VLLM_HOST_IP"
FI_PROVIDER: Final = "FI_PROVIDER"
FI_EFA_USE_DEVICE_RDMA: Final = "FI_EFA_USE_DEVICE_RDMA"
FI_EFA_FORK_SAFE: Final = "FI_EFA_FORK_SAFE"
NEURON_RT_ROOT_COMM_ID: Final = "NEURON_RT_ROOT_COMM_ID"
NCCL_MNNVL_ENABLE: Final = "NCCL_MNNVL_ENABLE"
NCCL_CUMEM_ENABLE: Final = "NCCL_CUMEM_ENABLE"
NCCL_NVLS_ENABLE: Final = "NCCL_NVLS_ENABLE"

# Kinds, annotations and labels of user objects that validation rules read.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
RAYJOB_KIND: Final = "RayJob"
RAYSERVICE_KIND: Final = "RayService"
RAYCRONJOB_KIND: Final = "RayCronJob"
RAY_KINDS: Final = (RAYCLUSTER_KIND, RAYJOB_KIND, RAYSERVICE_KIND, RAYCRONJOB_KIND)
RAY_VERSIONS: Final = ("v1", "v1alpha1")
ANNOTATION_IPPR: Final = "ray.io/ippr"
ANNOTATION_IPPR_STATUS: Final = "ray.io/ippr-status"
"""On a pod: the result of an in-place resize, as JSON written by Ray's autoscaler."""
ANNOTATION_FT_ENABLED: Final = "ray.io/ft-enabled"
ANNOTATION_EXTERNAL_STORAGE: Final = "ray.io/external-storage-namespace"
ANNOTATION_INITIALIZING_TIMEOUT: Final = "ray.io/initializing-timeout"
LABEL_ORIGIN_NAME: Final = "ray.io/originated-from-cr-name"
LABEL_ORIGIN_KIND: Final = "ray.io/originated-from-crd"
LABEL_GANG: Final = "ray.io/gang-scheduling-enabled"

# Kueue: https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/apis/kueue/v1beta2/topology_types.go
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_PREFIX: Final = f"{KUEUE_GROUP}/"
KUEUE_MULTIKUEUE: Final = KUEUE_PREFIX + "multikueue"
LABEL_KUEUE_QUEUE: Final = KUEUE_PREFIX + "queue-name"
KUEUE_ELASTIC_JOB: Final = KUEUE_PREFIX + "elastic-job"
KUEUE_GATE_TOPOLOGY: Final = KUEUE_PREFIX + "topology"
KUEUE_REQUIRED_TOPOLOGY: Final = KUEUE_PREFIX + "podset-required-topology"
KUEUE_PREFERRED_TOPOLOGY: Final = KUEUE_PREFIX + "podset-preferred-topology"
KUEUE_UNCONSTRAINED_TOPOLOGY: Final = KUEUE_PREFIX + "podset-unconstrained-topology"
KUEUE_SLICE_REQUIRED_TOPOLOGY: Final = KUEUE_PREFIX + "podset-slice-required-topology"
KUEUE_SLICE_CONSTRAINTS: Final = KUEUE_PREFIX + "podset-slice-required-topology-constraints"
KUEUE_SLICE_SIZE: Final = KUEUE_PREFIX + "podset-slice-size"
KUEUE_TOPOLOGIES: Final = (
    KUEUE_REQUIRED_TOPOLOGY,
    KUEUE_PREFERRED_TOPOLOGY,
    KUEUE_UNCONSTRAINED_TOPOLOGY,
    KUEUE_SLICE_REQUIRED_TOPOLOGY,
    KUEUE_SLICE_CONSTRAINTS,
)
"""Annotations of pods whose nodes Kueue chooses."""

OTHER_SCHEDULER_LABELS: Final = (
    "volcano.sh/queue-name",
    "volcano.sh/network-topology-mode",
    "ray.io/priority-class-name",
    "yunikorn.apache.org/app-id",
    "yunikorn.apache.org/queue",
    "kai.scheduler/queue",
)
DEFAULT_SCHEDULER: Final = "default-scheduler"
BATCH_SCHEDULERS: Final = frozenset(
    {"volcano", "yunikorn", "kai-scheduler", "scheduler-plugins-scheduler"}
)
"""Values of `schedulerName` that KubeRay's batch scheduler plugins write; these create pod groups
of their own.
"""

# Seconds that a Ray node drains after `ray start --block` receives SIGTERM; Ray 2.57 and later.
# https://github.com/ray-project/ray/pull/64454
RAY_DRAIN_TIMEOUT: Final = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"

# The location of a Ray node: variables that become its labels, and the labels that Kubernetes 1.35
# and later copies from the Node to the pod. RAY_OVERRIDE_LABELS is JSON, and overrides all others.
# https://github.com/ray-project/ray/blob/master/python/ray/_private/resource_and_label_spec.py
# https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
RAY_NODE_ZONE: Final = "RAY_NODE_ZONE"
RAY_NODE_REGION: Final = "RAY_NODE_REGION"
RAY_OVERRIDE_LABELS: Final = "RAY_OVERRIDE_LABELS"
RAY_LABEL_NODE_ID: Final = "ray.io/node-id"
"""A label that the raylet sets, and that no user may set: Ray `node_manager.cc`."""
NODE_LABEL: Final = "RAY_WEBHOOK_NODE_LABEL_"
"""Prefix of a number: a variable with one label of the Node, which RAY_OVERRIDE_LABELS refers
to.
"""
KUBERAY_NODE_LABELS: Final = "RAY_NODE_LABELS_JSON"
"""KubeRay's variable for labels of Nodes: https://github.com/ray-project/kuberay/pull/5300"""
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_REGION: Final = "topology.kubernetes.io/region"

# Variables that KubeRay or Ray define.
RAY_REDIS_ADDRESS: Final = "RAY_REDIS_ADDRESS"
REDIS_PASSWORD: Final = "REDIS_PASSWORD"  # noqa: S105 - the name of a variable
REDIS_USERNAME: Final = "REDIS_USERNAME"
RAY_GCS_STORAGE: Final = "RAY_gcs_storage"
RAY_GCS_STORAGE_PATH: Final = "RAY_gcs_storage_path"
RAY_ENABLE_AUTOSCALER_V2: Final = "RAY_enable_autoscaler_v2"
AUTOSCALER_START_COMMAND: Final = "KUBERAY_GEN_AUTOSCALER_START_CMD"

# KubeRay writes the command that starts Ray into this variable of Ray's container; by the
# annotation the container's own command replaces KubeRay's; samples name that container so.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
RAY_START_COMMAND: Final = "KUBERAY_GEN_RAY_START_CMD"
OVERWRITE_COMMAND: Final = "ray.io/overwrite-container-cmd"
RAY_CONTAINERS: Final = ("ray-worker", "ray-head")

TLS_VARIABLES: Final = (
    "RAY_USE_TLS",
    "RAY_TLS_SERVER_CERT",
    "RAY_TLS_SERVER_KEY",
    "RAY_TLS_CA_CERT",
)


POD_KIND: Final = "Pod"


def is_ray(group: str, version: str, kind: str) -> bool:
    """Return whether an object is a Ray object of a supported version."""
    return group == RAY_GROUP and version in RAY_VERSIONS and kind in RAY_KINDS


def known_kind(api_version: object, kind: object) -> str:
    """Return the kind of a Ray object or a Pod; empty for anything else."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return ""
    if (api_version, kind) == ("v1", POD_KIND):
        return kind
    group, _, version = api_version.partition("/")
    return kind if is_ray(group, version, kind) else ""
