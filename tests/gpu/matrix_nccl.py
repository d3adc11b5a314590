# SPDX-License-Identifier: MIT
"""An all-reduce of two processes on two GPUs through NCCL, whole numbers: exact in any order."""
import os
import tempfile

from matrix_check import checksum, need, skip

RANKS = 2


def rank_main(rank, folder):
    """One rank. Its output is in a file, so that the ranks' outputs don't mix."""
    import torch
    import torch.distributed as distributed

    os.environ["RANK"] = str(rank)
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank,
                                   world_size=RANKS)
    with open(f"{folder}/{rank}", "w", encoding="ascii") as out:
        for size in (1000, 1 << 20, 32 << 20):
            tensor = torch.arange(size, dtype=torch.int32, device="cuda") * (rank + 1)
            distributed.all_reduce(tensor)
            right = bool((tensor == torch.arange(size, dtype=torch.int32, device="cuda") * 3).all())
            out.write(f"rank {rank}: {size} {checksum(tensor.cpu().numpy())} {right}\n")
    distributed.barrier()
    distributed.destroy_process_group()


def main():
    torch = need("torch")
    if torch.cuda.device_count() < RANKS:
        skip(f"{torch.cuda.device_count()} GPU here, and two are needed")
    print("version:", ".".join(map(str, torch.cuda.nccl.version())))
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, args=(folder,), nprocs=RANKS)
        for rank in range(RANKS):
            with open(f"{folder}/{rank}", encoding="ascii") as lines:
                print(lines.read(), end="")


if __name__ == "__main__":
    main()
