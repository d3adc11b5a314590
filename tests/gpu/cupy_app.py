# SPDX-License-Identifier: MIT
"""Plain CuPy: makes an array with known bytes, prints its address, and reports whether somebody changes it."""
import signal
import sys
import time

import cupy

stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
x = cupy.arange(1 << 20, dtype=cupy.int32) * 7 + 3
cupy.cuda.Device().synchronize()
cupy.asnumpy(x).tofile(sys.argv[1])
print("CuPy", cupy.__version__, x.data.ptr, x.data.mem.ptr, x.data.mem.size, x.nbytes, flush=True)
deadline = time.monotonic() + 60
while int(x[0]) != -1 and time.monotonic() < deadline and not stop:
    time.sleep(0.01)
print("first element", int(x[0]), flush=True)
while time.monotonic() < deadline and not stop:
    time.sleep(0.01)
