"""Holds the rules against what Ray's autoscaler reads of a RayCluster: `make ray-readers`."""
