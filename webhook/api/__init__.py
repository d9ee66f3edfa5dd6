"""Names, objects, quantities and review values of Kubernetes, KubeRay and Ray."""
