# SPDX-License-Identifier: MIT
"""PyTorch programs for part_recipes.bash, which runs README.md's recipes as they are written.

recipes.py model NAME       shares a small model's parameters and waits for its input's end
recipes.py user NAME        a model on "meta" gets NAME's parameters; prints the sum of a forward pass
recipes.py look             knows nothing of gpushare: allocates 16 MiB without filling them, prints their bytes' sum
recipes.py train            knows nothing of gpushare: trains a small model, prints the sum of its first weight's
                            bytes, and waits for its input's end
Exit code 77: PyTorch is not installed.
"""
import sys

from matrix_check import need

torch = need("torch")
WIDTH = 1024


def model(device):
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, device=device) for _ in range(4)]).eval()


def forward(net):
    with torch.no_grad():
        return float(net(torch.ones(1, WIDTH, device="cuda")).double().sum())


def main():
    what = sys.argv[1]
    torch.manual_seed(11)
    if what == "train":
        net = model("cuda")
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(8, WIDTH, device="cuda")).square().sum().backward()
            optimizer.step()
        weight = net[0].weight.detach()
        torch.cuda.synchronize()
        print(weight.data_ptr(), int(weight.view(torch.uint8).long().sum()), flush=True)
        sys.stdin.read()
        return
    if what == "look":
        print(int(torch.empty(1 << 24, dtype=torch.uint8, device="cuda").long().sum()), flush=True)
        return
    import gpushare
    if what == "model":
        net = model("cuda")
        shared = gpushare.torch.share_state_dict(net, sys.argv[2])
        print(forward(net), flush=True)
        sys.stdin.read()
        shared.close()
    else:
        net = model("meta")
        gpushare.torch.attach_state_dict(sys.argv[2], net, wait=60)
        print(forward(net), flush=True)


main()
