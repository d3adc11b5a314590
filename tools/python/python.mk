# SPDX-License-Identifier: MIT
# make wheel   the wheel and sdist of the Python package, in $(BUILD)/python, without a download
# _abi.py is generated inside the source package, so that Python can use the package from this tree.
ABI := tools/python/src/gpushare/_abi.py
$(ABI): tools/python/abi.py include/gpushare.h
	$(call say,ABI,$@)
	@mkdir -p $(BUILD)
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 tools/python/abi.py >$(BUILD)/_abi.py
	$(Q)mv $(BUILD)/_abi.py $@ 2>/dev/null || cmp -s $(BUILD)/_abi.py $@ || \
		echo "skipped: $@ can't be written; 'make wheel' makes its own"
products tests installable: $(ABI)
wheel:
	$(Q)rm -rf $(BUILD)/python
	$(Q)PYTHONDONTWRITEBYTECODE=1 python3 tools/python/backend.py $(BUILD)/python
.PHONY: wheel
