# SPDX-License-Identifier: MIT
"""torch.utils"""
from . import dlpack  # noqa: F401
