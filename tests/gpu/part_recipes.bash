# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by tests/gpu/run.sh: README.md's three recipes, as they are written there, with PyTorch and with an unmodified
# program (app_hold: 16 MiB of 0xa5).
: "${root:?}" "${scratch:?}" "${bin:?}"
export GPUSHARE_LIBRARY=$BUILD/libgpushare.so.0 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tools/python/src
PATH=$BUILD:$PATH
RECIPE_SIZE=16777216
recipe=(python3 "$root/tests/gpu/recipes.py")
mkfifo "$scratch/open" # never closed by this shell: the programs' input has no end until they are ended

write "" "## README.md's recipes" ""

# hold COMMAND...: start it, and print its first line
hold() {
	: >"$scratch/said"
	"$@" >"$scratch/said" 2>"$scratch/errors" <>"$scratch/open" &
	pid=$!
	started+=("$pid")
	heard 1 >"$scratch/first"
}

drop() {
	kill -KILL "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

# sum NAME: of a buffer's bytes
sum() {
	timeout 60 gpushare get "$1" -o - 2>"$scratch/errors" | python3 -c 'import sys
print(sum(sys.stdin.buffer.read()))'
}

# same WHAT A B
same() {
	if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1"; else bad "$1: '$2' and '$3'"; fi
}

recipe_weights() {
	hold "${recipe[@]}" model llama || { bad "recipes.py model: $(cat "$scratch/said")" && return; }
	same "share_state_dict and attach_state_dict: the same forward pass" "$(timeout 120 "${recipe[@]}" user llama 2>"$scratch/errors")" "$(cat "$scratch/first")"
	drop
	hold gpushare run --name 'weights:size=16Mi-:readonly' -- "$bin/app_hold" $RECIPE_SIZE || { bad "app_hold, named" && return; }
	same "an unmodified program's memory, read-only, attached by an unmodified one (PyTorch)" \
		"$(timeout 120 gpushare run --attach weights:wait=60 -- "${recipe[@]}" look 2>"$scratch/errors")" $((RECIPE_SIZE * 0xa5))
	drop
}

recipe_look() {
	local names sum
	hold gpushare run --name 'seg%i:size=2Mi-' -- "${recipe[@]}" train || { bad "recipes.py train, named" && return; }
	names=$(gpushare ls -q 'seg*' 2>"$scratch/errors" | wc -l)
	gpushare get seg0 --dtype f32 --stats >"$scratch/stats" 2>"$scratch/errors" || bad "gpushare get seg0"
	gpushare save "$scratch/saved/" 'seg*' >/dev/null 2>"$scratch/errors" || bad "gpushare save"
	same "a training job's segments: seg0 by --stats, and all saved" "$(find "$scratch/saved" -name '*.bin' | wc -l)" "$names"
	drop
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 hold gpushare run --name 'tensor%i:size=4Mi:from=libc10_cuda.so' -- "${recipe[@]}" train ||
		{ bad "recipes.py train, PYTORCH_NO_CUDA_MEMORY_CACHING" && return; }
	read -r _ sum <"$scratch/first"
	same "PYTORCH_NO_CUDA_MEMORY_CACHING=1: tensor0 is the first weight, byte for byte" "$(sum tensor0)" "$sum"
	drop
}

recipe_crash() {
	hold gpushare run --name weights:keep:adopt -- "$bin/app_hold" $RECIPE_SIZE || { bad "app_hold, kept" && return; }
	drop
	same "kept over kill -9 of its owner" "$(sum weights)" $((RECIPE_SIZE * 0xa5))
	head -c $RECIPE_SIZE /dev/zero | tr '\0' '\3' >"$scratch/marks"
	gpushare put "$scratch/marks" weights >/dev/null 2>"$scratch/errors" || bad "put into kept memory"
	same "given back to the next start (PyTorch), contents and all" \
		"$(timeout 120 gpushare run --name weights:keep:adopt -- "${recipe[@]}" look 2>"$scratch/errors")" $((RECIPE_SIZE * 3))
	gpushare rm weights >/dev/null 2>"$scratch/errors" || bad "rm weights"
}

recipes() {
	"${recipe[@]}" nothing >"$scratch/said" 2>&1
	if [ $? = 77 ]; then
		skip "recipes: $(cat "$scratch/said")"
		return
	fi
	recipe_weights
	recipe_look
	recipe_crash
}
recipes
