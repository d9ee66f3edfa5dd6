"""Rules of GCS fault tolerance, by Redis or RocksDB on a volume, and of the history server."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.cluster import ClusterSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault

_VOLUME: Final = "gcs-storage"
_MOUNT_PATH: Final = "/data/gcs"


def fault_tolerance_twice(cluster: ClusterSpec) -> Iterator[Fault]:
    """Fault tolerance set by the old annotation and by options.

    The two may contradict each other, so KubeRay refuses the RayCluster.
    """
    if cluster.annotations.get(names.ANNOTATION_FT_ENABLED) and _options(cluster).given:
        field = cluster.annotation(names.ANNOTATION_FT_ENABLED)
        message = "gcsFaultToleranceOptions is set as well: remove the annotation"
        yield Fault(field, message, FORBIDDEN)


def redis_address_alone(cluster: ClusterSpec) -> Iterator[Fault]:
    """The variable with the address of Redis, without fault tolerance.

    Ray would use Redis without KubeRay's support, so KubeRay refuses the RayCluster.
    """
    entry = cluster.head.variable(names.RAY_REDIS_ADDRESS)
    if entry is not None and not cluster.gcs_fault_tolerant:
        message = (
            "fault tolerance is off: move the address to gcsFaultToleranceOptions.redisAddress"
        )
        yield Fault(entry / "name", message, FORBIDDEN)


def redis_address_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """Fault tolerance by Redis without its address.

    Before 1.7 the CRD of KubeRay requires the address. Later, the GCS runs without Redis, so the
    RayCluster has no fault tolerance.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    options = _options(cluster)
    # Other rules report storage of RocksDB without its backend, and an address outside the options.
    if not options.given or _rocksdb(cluster) or (options / "storage").given:
        return
    field = options / "redisAddress"
    if not field.text and cluster.head.variable(names.RAY_REDIS_ADDRESS) is None:
        message = "redisAddress is not set: write the address of Redis, such as redis:6379"
        yield Fault(field, message, REQUIRED)


def redis_settings_outside_options(cluster: ClusterSpec) -> Iterator[Fault]:
    """Settings of Redis outside the options of fault tolerance, while options are set.

    The two may contradict each other, so KubeRay refuses the RayCluster.
    """
    if not _options(cluster).given:
        return
    yield from _outside(cluster, "redisPassword", names.REDIS_PASSWORD, "redis-password")
    yield from _outside(cluster, "redisAddress", names.RAY_REDIS_ADDRESS)
    if cluster.annotations.get(names.ANNOTATION_EXTERNAL_STORAGE):
        field = cluster.annotation(names.ANNOTATION_EXTERNAL_STORAGE)
        yield _instead(field, "externalStorageNamespace")


def redis_username_outside_options(cluster: ClusterSpec) -> Iterator[Fault]:
    """The user name for Redis outside the options of fault tolerance.

    KubeRay reads the user name from the options only, and refuses the RayCluster.
    """
    yield from _outside(cluster, "redisUsername", names.REDIS_USERNAME, "redis-username")


def _outside(cluster: ClusterSpec, option: str, variable: str, param: str = "") -> Iterator[Fault]:
    """Report the start parameter and the variable of the head that stand for an option."""
    if param and cluster.head.params.get(param):
        yield _instead(cluster.head.param(param), option)
    if entry := cluster.head.variable(variable):
        yield _instead(entry / "name", option)


def _instead(field: Field, option: str) -> Fault:
    message = f"gcsFaultToleranceOptions is set: move the value to its field {option}"
    return Fault(field, message, FORBIDDEN)


def rocksdb_with_redis_settings(cluster: ClusterSpec) -> Iterator[Fault]:
    """Settings of Redis for the RocksDB backend.

    KubeRay regards these settings as a mistake and refuses the RayCluster.
    """
    if _rocksdb(cluster):
        for name in ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace"):
            field = _options(cluster) / name
            if field.given and field.value != "":
                message = f"{name} is set, but backend is rocksdb: remove it, or write redis"
                yield Fault(field, message, FORBIDDEN)


def rocksdb_claim_conflict(cluster: ClusterSpec) -> Iterator[Fault]:
    """An existing volume claim for RocksDB together with settings for a new one.

    KubeRay uses an existing claim unchanged, so these settings contradict it, and KubeRay refuses
    the RayCluster.
    """
    storage = _options(cluster) / "storage"
    if _rocksdb(cluster) and (storage / "claimName").text:
        for name in ("size", "storageClassName", "accessModes"):
            field = storage / name
            if field.given and field.value != []:
                problem = f"{name} is of a new claim, but claimName names an existing one"
                yield Fault(field, f"{problem}: remove one of them", FORBIDDEN)


def rocksdb_managed_storage(cluster: ClusterSpec) -> Iterator[Fault]:
    """The storage of RocksDB, set by hand in the head's template.

    KubeRay sets these variables, the volume and its mount itself, and refuses a template that
    contains them.
    """
    if not _rocksdb(cluster):
        return
    for name in (names.RAY_GCS_STORAGE, names.RAY_GCS_STORAGE_PATH):
        if entry := cluster.head.variable(name):
            yield Fault(entry / "name", f"KubeRay sets {name} itself: remove it", FORBIDDEN)
    for mount in (cluster.head.first.field / "volumeMounts").items():
        if (mount / "name").text == _VOLUME or (mount / "mountPath").text == _MOUNT_PATH:
            message = f"KubeRay mounts {_VOLUME} at {_MOUNT_PATH} itself: remove the mount"
            yield Fault(mount, message, FORBIDDEN)
    for volume in (cluster.head.pod / "volumes").items():
        if (volume / "name").text == _VOLUME:
            yield Fault(volume, "KubeRay adds a volume of this name: rename this one", FORBIDDEN)


def redis_with_storage(cluster: ClusterSpec) -> Iterator[Fault]:
    """A volume for the Redis backend.

    Only RocksDB uses a volume; KubeRay refuses the RayCluster.
    """
    field = _options(cluster) / "storage"
    if field.given and not _rocksdb(cluster):
        message = "storage is set, but backend is not rocksdb: remove it, or set that"
        yield Fault(field, message, FORBIDDEN)


def _options(cluster: ClusterSpec) -> Field:
    return cluster.field / "gcsFaultToleranceOptions"


def _rocksdb(cluster: ClusterSpec) -> bool:
    return (_options(cluster) / "backend").text == "rocksdb"


_CONTAINER: Final = "ray-history-collector"
_BACKEND: Final = "STORAGE_BACKEND"
_MANAGED: Final = (
    "POD_IP",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_ROLE",
    "OWNER_KIND",
    "OWNER_NAME",
    "EVENTS_PORT",
)
_NEEDED: Final = {
    "GCS": ("GCS_BUCKET",),
    "S3": ("S3_REGION",),
    "ALIYUNOSS": ("OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION"),
}
_AZURE_MODE: Final = "AZURE_STORAGE_AUTH_MODE"
_AZURE: Final = ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_URL")
_AZURE_MODES: Final = {
    "connection_string": _AZURE[:1],
    "workload_identity": _AZURE[1:],
    "default": _AZURE[1:],
}
"""By mode, the variables of which one is required to log in to Azure."""


def history_collector_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """History options without a collector, or a collector without an image.

    KubeRay has no container to add to the pods, so it refuses the RayCluster.
    """
    field = cluster.field / "historyServerOptions"
    collector = field / "collectorOptions"
    image = collector / "image"
    if field.given and not collector.given:
        message = "collectorOptions is not set: add it with image and env, or remove the options"
        yield Fault(collector, message, REQUIRED)
    elif collector.given and (not image.given or image.value == ""):
        yield Fault(image, "collectorOptions has no image: set it", REQUIRED)


def history_managed_variable(cluster: ClusterSpec) -> Iterator[Fault]:
    """A variable of the collector that KubeRay sets itself.

    The value would replace KubeRay's, so KubeRay refuses the RayCluster.
    """
    for entry in (_collector(cluster) / "env").items():
        if (entry / "name").text in _MANAGED:
            message = f"KubeRay sets {(entry / 'name').text} itself: remove it"
            yield Fault(entry / "name", message, FORBIDDEN)


def history_storage_incomplete(cluster: ClusterSpec) -> Iterator[Fault]:
    """A collector without its storage, or with incomplete settings of its storage.

    The collector could not store any data, so KubeRay refuses the RayCluster.
    """
    collector = _collector(cluster)
    if not collector.given:
        return
    env = {(entry / "name").text: entry for entry in (collector / "env").items()}
    values = {name: (entry / "value").text for name, entry in env.items()}
    present = {name for name in env if values[name] or (env[name] / "valueFrom").given}
    backend = values.get(_BACKEND, "").upper()
    texts = [] if backend else [f"has no {_BACKEND}: set it to gcs, s3, azureblob or aliyunoss"]
    texts += [
        f"has no {needed}, which storage {backend} needs: set it"
        for needed in _NEEDED.get(backend, ())
        if needed not in present
    ]
    login_variables = _AZURE_MODES.get(values.get(_AZURE_MODE, "").strip().lower(), _AZURE)
    if backend == "AZUREBLOB" and present.isdisjoint(login_variables):
        texts.append(f"lacks {' or '.join(login_variables)}, for storage AZUREBLOB: set it")
    for problem in texts:
        yield Fault(collector / "env", f"env {problem}", REQUIRED)


def history_container_taken(cluster: ClusterSpec) -> Iterator[Fault]:
    """A container with the name of the collector, in a template.

    KubeRay adds a container of this name, so it refuses a template that contains one.
    """
    if (cluster.field / "historyServerOptions").given:
        for group in cluster.every_group:
            for container in group.containers:
                if container.name == _CONTAINER:
                    message = "KubeRay adds a container of this name: rename or remove it"
                    yield Fault(container.field / "name", message, FORBIDDEN)


def _collector(cluster: ClusterSpec) -> Field:
    return cluster.field / "historyServerOptions" / "collectorOptions"
