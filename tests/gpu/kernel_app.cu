/* SPDX-License-Identifier: MIT */
/*
 * An ordinary CUDA program, built by plain nvcc, that knows nothing of gpushare: `kernel_app FILE`.
 * Its kernel writes 64 MiB; it looks until another kernel's words are there, answers with a third
 * pattern, saves that to FILE and stays until SIGTERM, or 30 s.
 */
#include <signal.h>

#include "kernel_pattern.h"

#define WORDS ((size_t)16 << 20)

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

int main(int argc, char **argv)
{
	unsigned *words, *host = (unsigned *)malloc(WORDS * sizeof(*host));
	unsigned long long wrong;
	FILE *file;

	if (argc != 2 || !host)
		return 2;
	signal(SIGTERM, stop);
	setvbuf(stdout, NULL, _IOLBF, 0);
	must(cudaMalloc(&words, WORDS * sizeof(*words)), "cudaMalloc");
	pattern_fill(words, WORDS, 1);
	printf("app: my kernel wrote %zu words\n", WORDS);
	wrong = pattern_await(words, WORDS, 2);
	printf("app: the peer's kernel's words in my buffer: %llu wrong\n", wrong);
	pattern_fill(words, WORDS, 3);
	must(cudaMemcpy(host, words, WORDS * sizeof(*words), cudaMemcpyDeviceToHost), "cudaMemcpy");
	file = fopen(argv[1], "wb");
	if (!file || fwrite(host, sizeof(*host), WORDS, file) != WORDS || fclose(file))
		return 1;
	printf("app: answered and saved\n");
	for (int waited_ms = 0; !told_to_stop && waited_ms < PATTERN_PATIENCE_MS; waited_ms += 5)
		usleep(5000);
	must(cudaFree(words), "cudaFree");
	return wrong || !told_to_stop;
}
