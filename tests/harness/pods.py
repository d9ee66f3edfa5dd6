"""Worker pods of unusual RayClusters that the shared server has in its cache."""

from tests.builders import Object, a_pod
from webhook.api import names

LABELS = {
    "index": names.LABEL_REPLICA_INDEX,
    "name": names.LABEL_REPLICA_NAME,
    "host": names.LABEL_HOST_INDEX,
}


def worker(group: str, cluster: str = "odd", **labels: str) -> Object:
    """Return a worker pod; names of labels are those of `LABELS`."""
    pod = a_pod().of(cluster).worker(group)
    for name, value in labels.items():
        pod.label(LABELS[name], value)
    return pod.build()
