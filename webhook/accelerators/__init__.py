"""Accelerators: TPU and GPU devices, TPU slices and topologies, and profiles of variables."""
