# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# bash looks for a file of the command's name.
# shellcheck source=tools/completions/gpushare.bash
. "${BASH_SOURCE[0]%/*}/gpushare.bash"
