# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# bash looks for a completion file with the command's name.
# shellcheck source=tools/completions/gpushare.bash
. "${BASH_SOURCE[0]%/*}/gpushare.bash"
