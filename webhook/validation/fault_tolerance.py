"""Rules of GCS fault tolerance: Redis, or RocksDB on a volume."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.review import FORBIDDEN
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import KUBERAY, deny

_VOLUME: Final = "gcs-storage"
_MOUNT_PATH: Final = "/data/gcs"


def fault_tolerance_twice(cluster: Cluster) -> Iterator[Fault]:
    """Fault tolerance set by the old annotation and by options.

    The two may contradict each other, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if cluster.annotations.get(names.ANNOTATION_FT_ENABLED) and _options(cluster).given:
        field = cluster.annotation(names.ANNOTATION_FT_ENABLED)
        yield Fault(
            field, "gcsFaultToleranceOptions is set as well: remove the annotation", FORBIDDEN
        )


def redis_address_alone(cluster: Cluster) -> Iterator[Fault]:
    """The variable with the address of Redis, without fault tolerance.

    Ray would use Redis without KubeRay's support, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    enabled = cluster.annotations.get(names.ANNOTATION_FT_ENABLED, "").lower() == "true"
    entry = _variable(cluster, names.RAY_REDIS_ADDRESS)
    if entry is not None and not enabled and not _options(cluster).given:
        yield Fault(
            entry / "name",
            "fault tolerance is off: move the address to gcsFaultToleranceOptions.redisAddress",
            FORBIDDEN,
        )


def redis_settings_outside_options(cluster: Cluster) -> Iterator[Fault]:
    """Settings of Redis outside the options of fault tolerance, while options are set.

    The two may contradict each other, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if not _options(cluster).given:
        return
    if cluster.head.params.get("redis-password"):
        yield Fault(cluster.head.param("redis-password"), _instead("redisPassword"), FORBIDDEN)
    for name, option in (
        (names.REDIS_PASSWORD, "redisPassword"),
        (names.RAY_REDIS_ADDRESS, "redisAddress"),
    ):
        if entry := _variable(cluster, name):
            yield Fault(entry / "name", _instead(option), FORBIDDEN)
    if cluster.annotations.get(names.ANNOTATION_EXTERNAL_STORAGE):
        field = cluster.annotation(names.ANNOTATION_EXTERNAL_STORAGE)
        yield Fault(field, _instead("externalStorageNamespace"), FORBIDDEN)


def redis_username_outside_options(cluster: Cluster) -> Iterator[Fault]:
    """The user name for Redis outside the options of fault tolerance.

    KubeRay reads the user name from the options only, and refuses the RayCluster.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if cluster.head.params.get("redis-username"):
        yield Fault(cluster.head.param("redis-username"), _instead("redisUsername"), FORBIDDEN)
    if entry := _variable(cluster, names.REDIS_USERNAME):
        yield Fault(entry / "name", _instead("redisUsername"), FORBIDDEN)


def rocksdb_with_redis_settings(cluster: Cluster) -> Iterator[Fault]:
    """Settings of Redis for the RocksDB backend.

    KubeRay regards these settings as a mistake and refuses the RayCluster.

    KubeRay validation.go (`validateGcsFaultToleranceBackend`)
    """
    if _rocksdb(cluster):
        for name in ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace"):
            field = _options(cluster) / name
            if field.given and field.value != "":
                yield Fault(
                    field,
                    f"{name} is set, but backend is rocksdb: remove it, or write redis",
                    FORBIDDEN,
                )


def rocksdb_claim_conflict(cluster: Cluster) -> Iterator[Fault]:
    """An existing volume claim for RocksDB together with settings for a new one.

    KubeRay uses an existing claim unchanged, so these settings contradict it, and KubeRay refuses
    the RayCluster.

    KubeRay validation.go (`validateGcsFaultToleranceBackend`)
    """
    storage = _options(cluster) / "storage"
    if _rocksdb(cluster) and (storage / "claimName").text:
        for name in ("size", "storageClassName", "accessModes"):
            field = storage / name
            if field.given and field.value != []:
                yield Fault(
                    field,
                    f"{name} is of a new claim, but claimName names an existing one: "
                    "remove one of them",
                    FORBIDDEN,
                )


def rocksdb_managed_storage(cluster: Cluster) -> Iterator[Fault]:
    """The storage of RocksDB, set by hand in the head's template.

    KubeRay sets these variables, the volume and its mount itself, and refuses a template that
    contains them.

    KubeRay validation.go (`validateGcsFaultToleranceBackend`)
    """
    if not _rocksdb(cluster):
        return
    for name in (names.RAY_GCS_STORAGE, names.RAY_GCS_STORAGE_PATH):
        if entry := _variable(cluster, name):
            yield Fault(entry / "name", f"KubeRay sets {name} itself: remove it", FORBIDDEN)
    first = cluster.head.first
    for mount in (first.field / "volumeMounts").items() if first else ():
        if (mount / "name").text == _VOLUME or (mount / "mountPath").text == _MOUNT_PATH:
            yield Fault(
                mount,
                f"KubeRay mounts {_VOLUME} at {_MOUNT_PATH} itself: remove the mount",
                FORBIDDEN,
            )
    for volume in (cluster.head.pod / "volumes").items():
        if (volume / "name").text == _VOLUME:
            yield Fault(volume, "KubeRay adds a volume of this name: rename this one", FORBIDDEN)


def redis_with_storage(cluster: Cluster) -> Iterator[Fault]:
    """A volume for the Redis backend.

    Only RocksDB uses a volume; KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateGcsFaultToleranceBackend`)
    """
    field = _options(cluster) / "storage"
    if field.given and not _rocksdb(cluster):
        yield Fault(
            field, "storage is set, but backend is not rocksdb: remove it, or set that", FORBIDDEN
        )


def _options(cluster: Cluster) -> Field:
    return cluster.field / "gcsFaultToleranceOptions"


def _rocksdb(cluster: Cluster) -> bool:
    return (_options(cluster) / "backend").text == "rocksdb"


def _variable(cluster: Cluster, name: str) -> Field | None:
    return cluster.head.first.variable(name) if cluster.head.first else None


def _instead(option: str) -> str:
    return f"gcsFaultToleranceOptions is set: move the value to its field {option}"


FAULT_TOLERANCE: Final = (
    deny(fault_tolerance_twice, by=KUBERAY),
    deny(redis_address_alone, by=KUBERAY),
    deny(redis_settings_outside_options, by=KUBERAY),
    deny(redis_username_outside_options, by=KUBERAY),
    deny(rocksdb_with_redis_settings, by=KUBERAY),
    deny(rocksdb_claim_conflict, by=KUBERAY),
    deny(rocksdb_managed_storage, by=KUBERAY),
    deny(redis_with_storage, by=KUBERAY),
)
