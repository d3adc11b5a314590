/* SPDX-License-Identifier: MIT */
/* Attaches kernel_app's buffer by name through the C API, and runs its own kernels on it. */
#include <gpushare.h>

#include "kernel_pattern.h"

int main(int argc, char **argv)
{
	struct gpushare_attach_options options = {.wait_ms = 20000};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	unsigned long long first, last;
	unsigned *words;
	size_t count;

	if (argc != 2)
		return 2;
	if (gpushare_open(NULL, &session) || gpushare_attach(session, argv[1], &options, &buffer)) {
		fprintf(stderr, "peer: %s\n", gpushare_explain());
		return 1;
	}
	must(cudaSetDevice(gpushare_device(buffer)), "cudaSetDevice");
	words = (unsigned *)(uintptr_t)gpushare_pointer(buffer);
	count = gpushare_size(buffer) / sizeof(*words);
	first = pattern_await(words, count, 1);
	printf("peer: the app's kernel's words, %zu of them: %llu wrong\n", count, first);
	pattern_fill(words, count, 2);
	last = pattern_await(words, count, 3);
	printf("peer: the app's answer: %llu wrong\n", last);
	return gpushare_close(session) || first || last;
}
