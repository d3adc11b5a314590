# SPDX-License-Identifier: MIT
"""torch.utils.dlpack"""


def from_dlpack(capsule):
    from .. import from_capsule
    return from_capsule(capsule)
