#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs scan-build's analyzer on registry, shim and tools: tests/analyze/run.sh [--within NODES] [FILE...]
# --within NODES: the analyzer looks at no more states of a function than that. This takes a fifth of the time and finds
# nearly everything; the script doesn't report what was left out. Without --within, the analyzer's own limit holds. Then
# the script reports for each finished file whether it was analyzed whole. If not, it names the functions with more
# states, or says that the file took longer than ANALYZE_SECONDS (600) and was ended. Needs BUILD's generated files.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
within=225000 # the analyzer's own
told=all batch=1 seconds=${ANALYZE_SECONDS:-600}
[ "${1:-}" != --within ] || { within=$2 told=found batch=8 seconds=0 && shift 2; }
[ -e "$build/gen/registry.pb.h" ] || { echo "nothing is built in $build: make first" && exit 1; }
files=("$@")
[ ${#files[@]} != 0 ] || mapfile -t files < <(find registry shim tools -name '*.c' ! -name 'cuda_abi_*' | sort)
models=$(basename -a -s .model tests/analyze/*.model | paste -sd '|')
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# The script that analyzes a few files. A file that defines a function with a model is analyzed without models.
# debug.Stats says for each function whether some states were not looked at ("Empty WorkList: no").
cat >"$temp/few" <<END
for file in "\$@"; do
	config=max-nodes=$within found=$temp/\${file//\//_}
	grep -qE '^(int|__attribute__.*) ($models)\(' "\$file" || config+=,model-path=tests/analyze
	timeout $seconds clang --analyze -Xclang -analyzer-output=text -Xclang -analyzer-checker=debug.Stats \\
		-Xclang -analyzer-config -Xclang "\$config" -std=gnu11 -D_GNU_SOURCE \\
		-Iinclude -iquote registry/protocol -iquote shim -iquote tools -iquote "$build/gen" -idirafter registry "\$file" >"\$found.all" 2>&1
	rc=\$?
	grep -v '\[debug.Stats\]\$' "\$found.all" >"\$found.found"
	[ $told = all ] || continue
	whole=\$(sed -n 's/.*: warning: \([^ ]*\) -> .*Empty WorkList: no.*/\1/p' "\$found.all" | sort -u | paste -sd ' ')
	if [ \$rc = 124 ]; then
		echo "in part: \$file: ended after $seconds s"
	elif [ \$rc != 0 ]; then
		echo "not at all: \$file: clang ended with \$rc"
	elif [ -n "\$whole" ]; then
		echo "in part: \$file: more than $within states: \$whole"
	else
		echo "whole: \$file"
	fi
done
END
printf '%s\0' "${files[@]}" | xargs -0 -n $batch -P "$(nproc)" bash "$temp/few" | tee "$temp/told"

# True for the analyzer's false reports. It says that a variable leaks which the cleanup attribute frees. And if a
# macro of utlist or uthash, or a ring, moves a list's head, the analyzer still uses the old head.
misread() {
	local place=$1 file=${1%%:*} variable
	[[ $2 =~ ^"Potential leak of memory pointed to by '"(.*)"'" ]] && variable=${BASH_REMATCH[1]} &&
		grep -qE "_cleanup_free_ .*\*$variable( |;)" "$file" && return 0
	case $place:$2 in
	registry/state/users.c:*"Use of memory after it is freed"*) ;;
	registry/fdstore/fdstore.c:*"Use of memory after it is freed"*) ;;
	registry/order/order.c:*"Use of memory after it is freed"*) ;;
	registry/persist/persist.c:*"Use of memory after it is freed"*) ;;
	shim/api/api_mirror.c:*"Use of memory after it is freed"*) ;;
	shim/preload/shim_live.c:*"Use of memory after it is freed"*) ;;
	shim/preload/shim_live.c:*"'<<' is a garbage value"*) ;; # uthash reads a key of two numbers by bytes
	registry/server/connection.c:*"'ask'"*) ;; # ask_handle() frees or parks it
	tools/common/beside.c:*"'folder'"*) ;; # a part of what is freed so
	shim/preload/shim_pages.c:*"'made'"* | shim/preload/shim_pages.c:*"Use of memory after it is freed"*) ;;
	*) return 1 ;;
	esac
}

bad=0
while IFS= read -r line; do
	place=${line%%: *} words=${line#*: *: }
	misread "$place" "$words" || { echo "$line" && bad=1; }
done < <(cat "$temp"/*.found | grep -E '^[^ ]*:[0-9]+:[0-9]+: (warning|error|fatal error): ' | sort -u)
[ $told = found ] || {
	echo "of ${#files[@]} files $(grep -c '^whole: ' "$temp/told") whole, $(grep -c '^in part: ' "$temp/told") in part"
	! grep -q '^not at all: ' "$temp/told" || bad=1
}
exit $bad
