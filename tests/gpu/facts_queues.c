/* SPDX-License-Identifier: MIT */
/*
 * Which streams stand beside streams that are held up: streams share the hardware's queues
 * ($CUDA_DEVICE_MAX_CONNECTIONS, 8 without it), and what is behind another's wait in one of them stands as
 * well.
 */
#include <stdlib.h>
#include <unistd.h>

#include "facts_held.h"

#define MOST 40
#define BESIDE 64

enum kind { WRITE, FILL, COPY, KINDS };
static const char *const kind_names[] = {"cuStreamWriteValue64", "cuMemsetD32Async",
					 "cuMemcpyDtoHAsync"};

/* How a probe goes. */
enum {
	PAIRS = 1,  /* each held stream has one that waits for its event */
	BEFORE = 2, /* the further ones were made, and used, before the held ones */
	MORE = 4,   /* with CUDA_DEVICE_MAX_CONNECTIONS=32 */
};

static cu_deviceptr memory;

/* In time. */
static bool comes(cu_stream stream, enum kind kind)
{
	uint64_t *word = held_word(kind);

	*word = 0;
	if (kind == WRITE) {
		facts_must("cuStreamWriteValue64",
			   cu.cuStreamWriteValue64_v2(stream, (uintptr_t)word, 1, 0));
		return held_written(word);
	}
	if (kind == FILL)
		facts_must("cuMemsetD32Async", cu.cuMemsetD32Async(memory, 1, 16, stream));
	else
		facts_must("cuMemcpyDtoHAsync",
			   cu.cuMemcpyDtoHAsync_v2(word, memory, sizeof(*word), stream));
	return held_event_comes(held_event(stream));
}

static void set_up(void)
{
	if (held_user() & MORE)
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	held_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&memory, BLOCK));
	facts_must("cuMemsetD8", cu.cuMemsetD8_v2(memory, 1, BLOCK));
	for (enum kind kind = 0; kind < KINDS; kind++) /* what it has to make for them is made */
		if (!comes(held_stream(), kind))
			facts_say("GIVEN UP", "%s beside nothing", kind_names[kind]);
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
}

static const char *setting(void)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s%s%s", held_user() & PAIRS ? "held pairs" : "held",
		 held_user() & BEFORE ? ", the further one made before" : "",
		 held_user() & MORE ? ", 32 connections" : "");
	return text;
}

/* How many streams that makes. */
static int hold_one_more(cu_stream out[2])
{
	out[0] = held_stream();
	held_up(out[0]);
	if (!(held_user() & PAIRS))
		return 1;
	out[1] = held_behind(out[0]);
	return 2;
}

static void say_first(enum kind kind, int first)
{
	char question[200];

	snprintf(question, sizeof(question), "%s: %s in a further stream", setting(),
		 kind_names[kind]);
	if (first)
		facts_say(question, "stands beside %d, for the first time", first);
	else
		facts_say(question, "comes beside each of 1 to %d", MOST);
}

static void end_all(cu_stream streams[], int count)
{
	held_let_go();
	for (int i = 0; i < count; i++) {
		facts_must("cuStreamSynchronize", cu.cuStreamSynchronize(streams[i]));
		facts_must("cuStreamDestroy", cu.cuStreamDestroy_v2(streams[i]));
	}
	held_again();
}

/* So many new ones in a row, and the further ones, one a kind; what has stood once is not asked any more. */
static void ask_beside(int held, cu_stream before[KINDS], int first[KINDS])
{
	cu_stream streams[2 * MOST + KINDS];
	int count = 0;

	for (int i = 0; i < held; i++)
		count += hold_one_more(&streams[count]);
	for (enum kind kind = 0; kind < KINDS; kind++) {
		cu_stream further = before[kind];

		if (first[kind])
			continue;
		if (!further)
			further = streams[count++] = held_stream();
		if (!comes(further, kind))
			first[kind] = held;
	}
	end_all(streams, count);
}

static void ask_growing(void)
{
	cu_stream before[KINDS] = {NULL};
	int first[KINDS] = {0};

	set_up();
	for (enum kind kind = 0; held_user() & BEFORE && kind < KINDS; kind++) {
		before[kind] = held_stream();
		comes(before[kind], kind);
	}
	for (int held = 1; held <= MOST; held++)
		ask_beside(held, before, first);
	for (enum kind kind = 0; kind < KINDS; kind++)
		say_first(kind, first[kind]);
}

/* One that is held, or one and what is behind it, and many others, each with a word to write. */
static void ask_which(void)
{
	char question[200], standing[512] = "";
	cu_stream held[2];
	size_t used = 0;
	int count = 0;

	set_up();
	for (int i = 0; i < BESIDE; i++)
		*held_word(i) = 0;
	hold_one_more(held);
	for (int i = 0; i < BESIDE; i++)
		facts_must(
		    "cuStreamWriteValue64",
		    cu.cuStreamWriteValue64_v2(held_stream(), (uintptr_t)held_word(i), 1, 0));
	usleep(HELD_PATIENCE_MS * 1000);
	for (int i = 0; i < BESIDE; i++) {
		if (__atomic_load_n(held_word(i), __ATOMIC_SEQ_CST) || used >= sizeof(standing) - 8)
			continue;
		used += (size_t)sprintf(standing + used, " %d", i + 1);
		count++;
	}
	snprintf(question, sizeof(question), "%s: of %d further streams these stand beside one",
		 setting(), BESIDE);
	facts_say(question, "%s", count ? standing + 1 : "none");
}

void facts_queues(void)
{
	const char *here = getenv("CUDA_DEVICE_MAX_CONNECTIONS");

	facts_say("CUDA_DEVICE_MAX_CONNECTIONS", "%s", here ? here : "not set");
	for (int more = 0; more <= MORE; more += MORE) {
		held_probe(ask_which, more);
		held_probe(ask_which, PAIRS | more);
		held_probe(ask_growing, more);
		held_probe(ask_growing, PAIRS | more);
	}
	held_probe(ask_growing, BEFORE);
	held_probe(ask_growing, BEFORE | PAIRS);
}
