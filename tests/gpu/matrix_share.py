# SPDX-License-Identifier: MIT
"""PyTorch's own sharing of CUDA tensors between two processes: the other one reads and writes them."""
from matrix_check import checksum, need, skip

SIZES = (1000, 1 << 20, 5 << 20)


def other(tensors, answers):
    """Runs in the other process: sends each tensor's checksum, and doubles its values."""
    for _ in SIZES:
        tensor = tensors.get()
        seen = checksum(tensor.cpu().numpy())
        tensor.mul_(2)
        import torch
        torch.cuda.synchronize()
        del tensor
        answers.put(seen)
    tensors.get()


def main():
    torch = need("torch")
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    print("version:", torch.__version__)
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    process = context.Process(target=other, args=(tensors, answers), daemon=True)
    process.start()
    for size in SIZES:
        tensor = torch.arange(size, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        before = checksum(tensor.cpu().numpy())
        tensors.put(tensor)
        print("the other one saw the same:", answers.get(timeout=90) == before)
        torch.cuda.synchronize()
        print("after the other one:", checksum(tensor.cpu().numpy()))
    tensors.put(None)
    process.join(60)
    print("the other one's exit code:", process.exitcode)


if __name__ == "__main__":
    main()
