# SPDX-License-Identifier: MIT
"""N processes with a model of BYTES each, loaded from one shared state dict, or by each from a file of its own.

py_state.py measure N BYTES FILE   prints a line for each of the two ways: "own|shared", the GPU bytes of all N, then
                                   medians in ms: until PyTorch had a context, until the weights were loaded, until
                                   the first forward pass was done; and the largest of the last times
py_state.py replace ROUNDS         replaces a kept state dict in place again and again, while another process attaches
                                   it; prints how often it attached, and how many state dicts it saw. None is mixed.
Exit code 77: PyTorch is not installed, or the GPU has no room.
"""
import json
import pathlib
import subprocess
import sys
import time

began = time.perf_counter()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "python" / "src"))
from matrix_check import need, skip

torch = need("torch")
import gpushare

WIDTH = 8192


def model(size, device):
    """A model of `size` bytes: layers of 128 MiB in half precision, with small ones between them."""
    layers = []
    for _ in range(max(size // (WIDTH * WIDTH * 2), 1)):
        layers += [torch.nn.Linear(WIDTH, WIDTH, bias=False, device=device, dtype=torch.float16),
                   torch.nn.LayerNorm(WIDTH, device=device, dtype=torch.float16)]
    return torch.nn.Sequential(*layers).eval()


def ms(since):
    return (time.perf_counter() - since) * 1e3


def one(way, where, size):
    """One of the N processes: prints its times, and stays until its input ends it."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    said = {"context": ms(began)}
    with torch.no_grad():
        net = model(size, "meta")
        if way == "own":
            net.load_state_dict(torch.load(where, map_location="cuda", weights_only=True), assign=True)
        else:
            kept = gpushare.torch.attach_state_dict(where, net, wait=60)
        torch.cuda.synchronize()
        said["weights"] = ms(began)
        out = net(torch.ones(1, WIDTH, device="cuda", dtype=torch.float16))
        torch.cuda.synchronize()
    said["forward"] = ms(began)
    said["sum"] = float(out.double().sum())
    print(json.dumps(said), flush=True)
    sys.stdin.readline()
    if way == "shared":
        kept.close()


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free


def run(way, count, where, size):
    """Start the N processes at once. Returns the GPU memory that they took, and what they printed."""
    before = used()
    started = [subprocess.Popen([sys.executable, __file__, way, str(where), str(size)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        said = [json.loads(p.stdout.readline() or "null") for p in started]
        took = used() - before
    finally:
        for p in started:
            p.stdin.close()
            p.wait()
    if not all(said):
        sys.exit(f"{way}: a process ended without its numbers")
    return took, said


def median(values):
    return sorted(values)[len(values) // 2]


def measure(count, size, file):
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    if torch.cuda.mem_get_info()[0] < size * (count + 2) + count * (1 << 30):
        skip(f"the GPU has no room for {count} processes of {size >> 30} GiB each")
    torch.manual_seed(7)
    net = model(size, "cuda")
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, WIDTH ** -0.5)
    torch.save(net.state_dict(), file)
    base = used()
    began_sharing = time.perf_counter()
    shared = gpushare.torch.share_state_dict(net, "state", assign=True)
    sharing = ms(began_sharing)
    torch.cuda.empty_cache()
    kept = used() - base  # in place of the model's own: about nothing
    sums = set()
    for way, where, more in (("own", file, 0), ("shared", "state", size)):
        took, said = run(way, count, where, size)
        sums.update(s["sum"] for s in said)
        print(way, took + more, *(f"{median([s[key] for s in said]):.1f}" for key in ("context", "weights", "forward")),
              f"{max(s['forward'] for s in said):.1f}", flush=True)
    print("sharing", kept, f"{sharing:.1f}", len(sums), flush=True)
    shared.close()


def kept(value):
    """Large and small parameters, and some that the next state dict lacks."""
    sizes = {"big0": 1 << 19, "big1": 1 << 20, "small0": 3, "small1": 300, f"only{value % 3}": 7, f"only-big{value % 3}": 1 << 19}
    return {key: torch.full((size,), float(value), device="cuda") for key, size in sizes.items()}


def look():
    """Attach until the state dict of negative values appears. Each state dict must be whole and of one value."""
    last, seen, attached = 0.0, set(), 0
    while last >= 0:
        found = gpushare.torch.attach_state_dict("replaced", wait=60)
        values = {float(end) for value in found.values() for end in (value.min(), value.max())}
        if len(values) != 1 or set(found) != set(kept(int(max(values)))):
            sys.exit(f"mixed: {values}, {sorted(found)}")
        last = values.pop()
        seen.add(last)
        attached += 1
    print(attached, len(seen), flush=True)


def replace(rounds):
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    with subprocess.Popen([sys.executable, __file__, "look", "", "0"], stdout=subprocess.PIPE, text=True) as looker:
        for value in [*range(1, rounds), -1]:
            gpushare.torch.share_state_dict(kept(value), "replaced", keep=True).close()
            time.sleep(0.05 if value % 2 else 0)
        said = looker.stdout.readline()
    names = len(gpushare.ls("replaced*"))
    gpushare.torch.remove_state_dict("replaced")
    if looker.returncode or names != 7:  # the state dict and its six parameters
        sys.exit(f"replace: exit code {looker.returncode}, {names} names")
    print(said, end="")


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "replace":
        replace(int(sys.argv[2]))
    elif sys.argv[1] == "look":
        look()
    else:
        one(sys.argv[1], sys.argv[2], int(sys.argv[3]))
