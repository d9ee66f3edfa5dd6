"""Program under torchrun, which has no other argument: prints the connected processes."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
came = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
dist.all_gather(came, torch.tensor([dist.get_rank()]))
print("met", *(int(each) for each in came), flush=True)
dist.destroy_process_group()
