"""Ray's own code checks the pods of TPU slices that the webhook completed: `make ray-slices`."""
