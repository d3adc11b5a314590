#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `make coverage` (coverage_flush.c) counts a process however it exits, and keeps its counts if processes are killed.
load helpers

setup_more() {
	needs gcov
	needs gcc
	[ -z "${EMULATOR:-}" ] || skip "nothing of another machine is counted"
	mkdir "$WORK/counts"
	cat >"$WORK/ways.c" <<-'END'
		#include <signal.h>
		#include <stdlib.h>
		#include <sys/resource.h>
		#include <unistd.h>
		int main(int count, char **words)
		{
			(void)count;
			switch (words[1][0]) {
			case 'e': return 0;
			case 'l': _exit(0);
			case 'x': execl("/bin/true", "true", NULL); return 1;
			case 'n': return setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 4096});
			case 'm': return setrlimit(RLIMIT_AS, &(struct rlimit){0, RLIM_INFINITY});
			case 'k': return raise(SIGKILL);
			}
			return 1;
		}
	END
	cd "$WORK"
	gcc -O0 -fPIC -DCOUNTS="\"$WORK/counts\"" -c "$ROOT/tests/coverage_flush.c" -o flush.o
	gcc -O0 --coverage -fprofile-update=atomic -c ways.c -o ways.o
	gcc --coverage -Wl,--wrap=_exit,--wrap=__gcov_exit,--wrap=__gcov_dump ways.o flush.o -o ways
}

# taken WAY: how often the program took WAY, according to gcov; ##### means never
taken() {
	gcov -t ways.c | sed -n "s/^ *\([0-9#]*\)\*\{0,1\}: *[0-9]*:.*case '$1'.*/\1/p"
}

# written: write gcov's files from the counts
written() {
	rm -f ways.gcda
	GPUSHARE_COVERAGE_WRITE=1 ./ways none
}

@test "coverage: exit, _exit and exec count, and add up; so does who may open or map nothing" {
	for way in e e l x n m; do ./ways $way; done
	[ ! -e ways.gcda ]
	written
	equal "$(for way in e l x n m k; do taken $way; done | xargs)" "2 1 1 1 1 #####"
}

@test "coverage: what was counted stays so, however many are killed as they leave" {
	./ways l
	for ((i = 0; i < 60; i++)); do
		./ways e &
		kill -KILL $! 2>/dev/null || true
		wait $! || true
	done
	run -137 ./ways k
	./ways e
	written
	equal "$(taken l)" 1
	[[ $(taken e) =~ ^[0-9]+$ ]]
	[ "$(taken e)" -ge 1 ]
	[ "$(taken e)" -le 61 ]
	equal "$(taken k)" "#####"
}
