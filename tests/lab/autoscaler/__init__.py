"""Ray's own node providers, by which its autoscaler scales a RayCluster, against a control plane:
`make autoscaler`.
"""
