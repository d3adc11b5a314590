/* SPDX-License-Identifier: MIT */
/*
 * The part of kernel_peer, done by the CPU alone. `api_host_peer NAME` maps the buffer of
 * kernel_app and checks what its kernel wrote. It stores the answer, and checks the result of the
 * app's next kernel. It makes no CUDA call.
 */
#include <gpushare.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"

#define PATIENCE_MS 30000
#define CHUNK ((size_t)16384)

/* By memcpy, because a single load of such memory takes a microsecond. */
static size_t count_wrong(const volatile unsigned *words, size_t count, unsigned stage)
{
	static unsigned copied[CHUNK];
	size_t wrong = 0;

	for (size_t done = 0, part; done < count; done += part) {
		part = count - done < CHUNK ? count - done : CHUNK;
		memcpy(copied, (const void *)(words + done), part * sizeof(*copied));
		for (size_t i = 0; i < part; i++)
			wrong += copied[i] != pattern(stage, done + i);
	}
	return wrong;
}

/*
 * Poll the last word: the app writes from the start, so all words are there when the last one is.
 */
static size_t await(struct gpushare_map *map, const volatile unsigned *words, size_t count,
		    unsigned stage)
{
	int waited_ms = 0;

	while (words[count - 1] != pattern(stage, count - 1) && waited_ms++ < PATIENCE_MS) {
		usleep(1000);
		gpushare_map_invalidate(map, (count - 1) * sizeof(*words), sizeof(*words));
	}
	usleep(100000); /* for the rest of that kernel */
	gpushare_map_invalidate(map, 0, count * sizeof(*words));
	return count_wrong(words, count, stage);
}

int main(int argc, char **argv)
{
	const struct gpushare_attach_options without_cuda = {.host_only = 1, .wait_ms = 20000};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct gpushare_map *map;
	size_t count, first, last;
	volatile unsigned *words;

	if (argc != 2)
		return 2;
	if (gpushare_open(NULL, &session) ||
	    gpushare_attach(session, argv[1], &without_cuda, &buffer) ||
	    gpushare_map(buffer, 0, gpushare_size(buffer), GPUSHARE_READ | GPUSHARE_WRITE, &map)) {
		fprintf(stderr, "peer: %s\n", gpushare_explain());
		return 1;
	}
	words = gpushare_map_data(map);
	count = gpushare_size(buffer) / sizeof(*words);
	first = await(map, words, count, 1);
	printf("peer: the app's kernel's words, %zu of them: %zu wrong\n", count, first);
	for (size_t i = 0; i < count; i++)
		words[i] = pattern(2, i);
	gpushare_map_flush(map, 0, gpushare_map_size(map));
	last = await(map, words, count, 3);
	printf("peer: the app's answer: %zu wrong\n", last);
	return gpushare_unmap(map) || gpushare_close(session) || first || last;
}
