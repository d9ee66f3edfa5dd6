"""Facts copied from KubeRay and Ray, compared with their newest versions: `make facts`."""
