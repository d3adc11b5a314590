#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What scan-build's analyzer finds in registry, shim and tools: tests/analyze/run.sh [--within NODES] [FILE...]
# NODES: it looks at no more states of a function than that; a fifth of the time finds nearly all, and what it
# did not get to is not told. Without, as many as the analyzer itself allows, and of each file, as soon as it
# is done, whether it was analyzed whole: which functions have more states than that, or that it took longer
# than ANALYZE_SECONDS (600) and was ended. Needs what is generated, in BUILD.
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

# Of a few files: those that hold a function of which there is a model go without models. debug.Stats says
# of each function whether it has states that were not looked at ("Empty WorkList: no").
cat >"$temp/few" <<END
for file in "\$@"; do
	config=max-nodes=$within found=$temp/\${file//\//_}
	grep -qE '^(int|__attribute__.*) ($models)\(' "\$file" || config+=,model-path=tests/analyze
	timeout $seconds clang --analyze -Xclang -analyzer-output=text -Xclang -analyzer-checker=debug.Stats \\
		-Xclang -analyzer-config -Xclang "\$config" -std=gnu11 -D_GNU_SOURCE \\
		-Iinclude -iquote registry/protocol -iquote shim -iquote "$build/gen" -idirafter registry "\$file" >"\$found.all" 2>&1
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

# What it misreads. Of a variable that the cleanup attribute frees it says that it leaks. A list's head
# that moves, through a macro of utlist's and uthash's or in a ring, it takes for what it was before.
misread() {
	local place=$1 file=${1%%:*} variable
	[[ $2 =~ ^"Potential leak of memory pointed to by '"(.*)"'" ]] && variable=${BASH_REMATCH[1]} &&
		grep -qE "_cleanup_free_ .*\*$variable( |;)" "$file" && return 0
	case $place:$2 in
	registry/state/users.c:*"Use of memory after it is freed"*) ;;
	registry/fdstore/fdstore.c:*"Use of memory after it is freed"*) ;;
	shim/api/api_mirror.c:*"Use of memory after it is freed"*) ;;
	registry/server/connection.c:*"'ask'"*) ;; # ask_handle() frees or parks it
	tools/beside.c:*"'folder'"*) ;; # a part of what is freed so
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
