"""Gangs: the PodGroups that a RayCluster should have, and what to do next about
those that exist.
"""
