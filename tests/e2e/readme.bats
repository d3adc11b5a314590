#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The examples in README.md and docs/api.md compile and run: C, C++ and Python, and README.md's quick start.
load helpers

setup_more() {
	[ -e "$ROOT/README.md" ] || skip "no source tree here"
	needs gcc
}

# snippets PAGE LANGUAGE: write each snippet of PAGE to its own file, $WORK/1.LANGUAGE and so on
snippets() {
	awk -v "lang=$2" -v "to=$WORK" '
		!inside && $0 == "```" lang { inside = 1; out = to "/" ++n "." lang; next }
		inside && $0 == "```" { inside = 0; close(out); next }
		inside { print >out }' "$ROOT/$1"
}

@test "the C of docs/api.md: the first is a whole program, the others are parts of one" {
	snippets docs/api.md c
	gcc -Wall -Wextra -Werror -I"$ROOT/include" "$WORK/1.c" -o "$WORK/first" -L"$BUILD" -l:libgpushare.so.0 -Wl,-rpath,"$BUILD"
	run -1 "$WORK/first"
	has "$output" weights
	[ -e "$WORK/6.c" ]
	for part in "$WORK"/[2-9].c; do
		! grep -q '<<<' "$part" || continue # a sketch of CUDA C++
		{
			printf '#include <%s>\n' gpushare.h stdio.h
			echo 'int part(struct gpushare_session *session, struct gpushare_buffer *buffer, size_t size, void *stream, void *its_stream);'
			echo 'int part(struct gpushare_session *session, struct gpushare_buffer *buffer, size_t size, void *stream, void *its_stream) {'
			cat "$part"
			echo 'return 0; }'
		} >"$WORK/part.c"
		gcc -fsyntax-only -Wall -Werror -I"$ROOT/include" "$WORK/part.c" || { cat "$part"; false; }
	done
}

@test "the C++ of docs/api.md" {
	needs g++
	snippets docs/api.md c++
	{
		echo '#include <gpushare.hpp>'
		echo 'void part() {'
		cat "$WORK/1.c++"
		echo '}'
	} >"$WORK/part.cpp"
	g++ -std=c++17 -fsyntax-only -Wall -Werror -I"$ROOT/include" "$WORK/part.cpp"
}

is_filled() {
	[[ $(eval "$stats") == *"mean   7"* ]]
}

# typed BEGINNING: the only line of README.md's quick start that begins with BEGINNING
typed() {
	local line
	line=$(awk -v "begins=$1" '$0 == "```sh" { inside = 1; next } inside && $0 == "```" { exit } inside && index($0, begins) == 1' "$ROOT/README.md")
	equal "$(wc -l <<<"$line")" 1
	[ -n "$line" ] || { echo "README.md: no $1"; return 1; }
	printf '%s\n' "${line%%  *#*}"
}

@test "the README's quick start without a GPU, its five lines of C and of Python" {
	local line server stats
	needs_sim
	snippets README.md c
	snippets README.md python
	cd "$WORK"
	ln -s "$ROOT/tests" tests
	ln -s "$BUILD" build
	mv 1.c server.c
	line=$(typed "make && gcc")
	eval "${line#make && } -MD -MF headers" # a toolkit's headers may be there too
	has "$(cat headers)" tests/sim/include/cuda_runtime.h
	sed 's/void \*memory/float *memory/' server.c >server.cpp
	line=${line#make && gcc} # in C++ a pointer has its type
	! command -v g++ >/dev/null || eval "g++ ${line/server.c/server.cpp}"
	equal "$(typed "export LD_LIBRARY_PATH=")" 'export LD_LIBRARY_PATH=$PWD/build/sim:$PWD/build'
	equal "$(typed "export PATH=")" 'export PATH=$PWD/build:$PATH'
	server=$(typed "gpushare run")
	has "$server" " &"
	# shellcheck disable=SC2086 # the words of the line
	start server ${server%&}
	stats=$(typed "gpushare get")
	until_true is_filled # the name is there before what the program writes
	has "$(eval "$(typed "gpushare ls")")" weights
	run -0 gpushare doctor ./server
	has "$output" "simulated driver"
	{
		printf '#include <%s>\n' gpushare.h stdio.h
		echo 'int main(void) {'
		cat 2.c
		echo 'printf("attached at %d\n", pointer != 0); gpushare_close(session); return 0; }'
	} >five.c
	gcc -Wall -Wextra -Werror -I"$ROOT/include" five.c -o five -L"$BUILD" -l:libgpushare.so.0 -Wl,-rpath,"$BUILD"
	equal "$(./five)" "attached at 1"
	if [ -z "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ] && command -v python3 >/dev/null; then
		equal "$(grep -c . 2.python)" 5
		has "$(cat "$ROOT/README.md")" '`export PYTHONPATH=$PWD/tools/python/src`'
		mkdir stand_in && echo 'def from_dlpack(buffer): return buffer' >stand_in/torch.py
		{ cat 2.python && echo 'print(tensor is weights, bytes(head) == bytes([7]) * 64)'; } >five.py
		output=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=stand_in:$ROOT/tools/python/src GPUSHARE_LIBRARY=$BUILD/libgpushare.so.0 python3 five.py)
		has "$output" "'weights' uint8[1048576]"
		has "$output" "True True"
	fi
	eval "$(typed "gpushare rm")"
	equal "$(gpushare ls --json | tr -d ' \n')" "[]"
	kill -0 "$PID"
}

@test "the README's server.c compiles with a toolkit" {
	command -v nvcc >/dev/null || skip "no nvcc"
	snippets README.md c
	cd "$WORK"
	mv 1.c server.c
	eval "$(typed nvcc)"
	[ -x server ]
}

@test "a compiler for an older C++ hears that gpushare.hpp needs C++17, and nothing else" {
	needs g++
	echo '#include <gpushare.hpp>' >"$WORK/part.cpp"
	for standard in c++11 c++14; do
		run -1 g++ -std=$standard -fsyntax-only -I"$ROOT/include" "$WORK/part.cpp"
		has "$output" "needs C++17"
		equal "$(grep -c 'error' <<<"$output")" 2 # the message, and the line that it quotes
	done
}
