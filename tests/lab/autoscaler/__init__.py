"""Ray's own node providers, which scale a RayCluster of a control plane: `make autoscaler`."""
