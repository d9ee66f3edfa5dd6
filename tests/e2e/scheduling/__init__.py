"""Tests of scheduling groups, on a control plane that serves PodGroups."""
