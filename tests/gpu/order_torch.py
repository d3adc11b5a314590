# SPDX-License-Identifier: MIT
"""PyTorch's own queue of CUDA tensors: the time from put() to get() in another process, in us.

order_torch.py COUNT prints the median and the 99th percentile.
"""
import sys
import time

import torch
import torch.multiprocessing as mp


def consume(tensors, answers, count):
    for _ in range(count):
        sent, tensor = tensors.get()
        answers.put((time.monotonic() - sent) * 1e6)
        del tensor


def main():
    count = int(sys.argv[1])
    mp.set_start_method("spawn")
    tensors, answers = mp.Queue(), mp.Queue()
    other = mp.Process(target=consume, args=(tensors, answers, count))
    other.start()
    times = []
    for number in range(count):
        tensor = torch.full((1024,), number, device="cuda")
        torch.cuda.synchronize()
        tensors.put((time.monotonic(), tensor))
        times.append(answers.get(timeout=60))
    other.join()
    times = sorted(times[len(times) // 10 :])
    print(f"{times[len(times) // 2]:.2f} {times[len(times) * 99 // 100]:.2f}")


if __name__ == "__main__":
    main()
