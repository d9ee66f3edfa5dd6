"""How many pods of a RayCluster are scheduled together: what the opt-in may say."""

from typing import Final

CLUSTER: Final = "cluster"
WORKER_GROUP: Final = "worker-group"
REPLICA: Final = "replica"
GRANULARITIES: Final = (CLUSTER, WORKER_GROUP, REPLICA)
