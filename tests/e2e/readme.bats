#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What README.md shows can be typed: its C and C++ compile, its program for the simulated driver runs.
load helpers

setup_more() {
	[ -e "$ROOT/README.md" ] || skip "no source tree here"
	needs gcc
}

# snippets LANGUAGE: each into a file of its own, $WORK/1.LANGUAGE and so on
snippets() {
	awk -v "lang=$1" -v "to=$WORK" '
		!inside && $0 == "```" lang { inside = 1; out = to "/" ++n "." lang; next }
		inside && $0 == "```" { inside = 0; close(out); next }
		inside { print >out }' "$ROOT/README.md"
}

@test "the README's C: the first is a whole program, the others are parts of one" {
	snippets c
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

@test "the README's C++" {
	needs g++
	snippets c++
	{
		echo '#include <gpushare.hpp>'
		echo 'void part() {'
		cat "$WORK/1.c++"
		echo '}'
	} >"$WORK/part.cpp"
	g++ -std=c++17 -fsyntax-only -Wall -Werror -I"$ROOT/include" "$WORK/part.cpp"
}

is_filled() {
	[[ $(gpushare-attach weights --wait 10 --stats) == *"mean   7"* ]]
}

@test "the README's way to run a program of one's own without a GPU" {
	needs_sim
	cat >"$WORK/server.c" <<-'EOF'
		#include <cuda_runtime.h>
		#include <unistd.h>
		int main(void)
		{
			void *at;
			return cudaMalloc(&at, 1 << 20) || cudaMemset(at, 7, 1 << 20) || pause();
		}
	EOF
	cd "$WORK"
	ln -s "$ROOT/tests" tests
	ln -s "$BUILD" build
	eval "$(grep '^gcc .*build/sim' "$ROOT/README.md" | sed 's/ #.*//') -MD -MF headers" # a toolkit's headers may be there too
	has "$(cat headers)" tests/sim/include/cuda_runtime.h
	start server gpushare run --name weights -- ./server
	until_true is_filled # the name is there before what the program writes
	run -0 gpushare doctor ./server
	has "$output" "simulated driver"
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
