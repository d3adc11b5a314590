# SPDX-License-Identifier: MIT
# make wheel        the Python package's wheel and sdist, in $(BUILD)/python: nothing is fetched
# make python-abi   write the ctypes form of include/gpushare.h again
wheel:
	$(Q)rm -rf $(BUILD)/python
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 tools/python/backend.py $(BUILD)/python
python-abi:
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 tools/python/abi.py >$(BUILD)/_abi.py
	$(Q)mv $(BUILD)/_abi.py tools/python/src/gpushare/_abi.py
.PHONY: wheel python-abi
