"""Scheduling groups: the stories of a control plane that serves PodGroups."""
