"""Work that a worker of a real Ray loses when its pod is deleted: `python -m tests.lab.drain`."""
