# SPDX-License-Identifier: MIT
"""Plain PyTorch training, deterministic: with the allocator that the argument names, or in a graph."""
import os
import sys

ALLOCATORS = {
    "default": None,
    "graph": None,
    "expandable": "expandable_segments:True",
    "async": "backend:cudaMallocAsync",
}
kind = sys.argv[1]
if ALLOCATORS[kind]:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = ALLOCATORS[kind]
    os.environ["PYTORCH_ALLOC_CONF"] = ALLOCATORS[kind]
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

from matrix_check import checksum, need, skip

torch = need("torch")
if not torch.cuda.is_available():
    skip("PyTorch sees no GPU")
torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
print("version:", torch.__version__)
print("allocator:", torch.cuda.get_allocator_backend())


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 32 * 32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()


def train():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    inputs = torch.randn(64, 3, 32, 32).cuda()
    labels = torch.randint(0, 10, (64,)).cuda()
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss

    if kind == "graph":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        for _ in range(20):
            graph.replay()
    else:
        for _ in range(20):
            loss = step()
    print("loss:", float(loss).hex())
    for name, parameter in model.named_parameters():
        print(name, checksum(parameter.detach().cpu().numpy()))


def churn():
    """Allocate and free segments, and check that they hold what was written."""
    wrong = 0
    for turn in range(10):
        held = [torch.full((size,), turn, dtype=torch.uint8, device="cuda")
                for size in (1000, 1 << 20, 3 << 20, 11 << 20, 40 << 20)]
        wrong += sum(int((tensor != turn).sum()) for tensor in held)
        del held
        torch.cuda.empty_cache()
    print("wrong bytes:", wrong)


train()
churn()
torch.cuda.synchronize()
