"""Facts that the code copies from KubeRay and Ray, compared with their newest versions: `make
facts`.
"""
