# SPDX-License-Identifier: MIT
"""Plain PyTorch: makes a tensor with known bytes, prints its address, and reports whether somebody changes it."""
import signal
import sys
import time

import torch

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
x = torch.arange(1 << 20, dtype=torch.int32, device="cuda") * 7 + 3
torch.cuda.synchronize()
x.cpu().numpy().tofile(sys.argv[1])
segment = next(s for s in torch.cuda.memory_snapshot()
               if s["address"] <= x.data_ptr() < s["address"] + s["total_size"])
print("PyTorch", torch.__version__, x.data_ptr(), segment["address"], segment["total_size"],
      x.numel() * x.element_size(), flush=True)
deadline = time.monotonic() + 60
while int(x[0]) != -1 and time.monotonic() < deadline and not stop:
    time.sleep(0.01)
print("first element", int(x[0]), flush=True)
while time.monotonic() < deadline and not stop:
    time.sleep(0.01)
