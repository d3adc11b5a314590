#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What scan-build's analyzer finds in registry, shim and tools: tests/analyze/run.sh [--within NODES] [FILE...]
# NODES: it looks at no more states of a function than that; a fifth of the time finds nearly all.
# Needs what is generated, in BUILD. Nothing is printed where nothing is found.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
within=225000 # the analyzer's own
[ "${1:-}" != --within ] || { within=$2 && shift 2; }
[ -e "$build/gen/registry.pb.h" ] || { echo "nothing is built in $build: make first" && exit 1; }
files=("$@")
[ ${#files[@]} != 0 ] || mapfile -t files < <(find registry shim tools -name '*.c' ! -name 'cuda_abi_*' | sort)
models=$(basename -a -s .model tests/analyze/*.model | paste -sd '|')
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# Of a few files: those that hold a function of which there is a model go without models.
cat >"$temp/few" <<END
for file in "\$@"; do
	config=max-nodes=$within
	grep -qE '^(int|__attribute__.*) ($models)\(' "\$file" || config+=,model-path=tests/analyze
	clang --analyze -Xclang -analyzer-output=text -Xclang -analyzer-config -Xclang "\$config" -std=gnu11 -D_GNU_SOURCE \
		-Iinclude -iquote registry/protocol -iquote shim -iquote "$build/gen" -idirafter registry "\$file" 2>&1
done >"$temp/\$\$.found"
END
printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" bash "$temp/few"

# What it misreads. Of a variable that the cleanup attribute frees it says that it leaks. A list's head
# that moves, through a macro of utlist's and uthash's or in a ring, it takes for what it was before.
misread() {
	local place=$1 file=${1%%:*} variable
	[[ $2 =~ ^"Potential leak of memory pointed to by '"(.*)"'" ]] && variable=${BASH_REMATCH[1]} &&
		grep -qE "_cleanup_free_ .*\*$variable( |;)" "$file" && return 0
	case $place:$2 in
	registry/events.c:*"Use of memory after it is freed"*) ;;
	registry/order_page.c:*"Use of memory after it is freed"*) ;;
	registry/users.c:*"Use of memory after it is freed"*) ;;
	registry/fdstore.c:*"Use of memory after it is freed"*) ;;
	shim/api_mirror.c:*"Use of memory after it is freed"*) ;;
	tools/beside.c:*"'folder'"*) ;; # a part of what is freed so
	shim/shim_pages.c:*"'made'"* | shim/shim_pages.c:*"Use of memory after it is freed"*) ;;
	*) return 1 ;;
	esac
}

bad=0
while IFS= read -r line; do
	place=${line%%: *} words=${line#*: *: }
	misread "$place" "$words" || { echo "$line" && bad=1; }
done < <(cat "$temp"/*.found | grep -E '^[^ ]*:[0-9]+:[0-9]+: (warning|error|fatal error): ' | sort -u)
exit $bad
