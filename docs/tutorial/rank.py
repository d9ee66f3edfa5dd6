"""Says which host of its replica runs it."""

import os

rank, hosts = os.environ["NODE_RANK"], os.environ["NNODES"]
print(f"rank {rank} of {hosts} meets at {os.environ['MASTER_ADDR']}")
