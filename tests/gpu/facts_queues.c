/* SPDX-License-Identifier: MIT */
/*
 * Which streams stand beside streams that are held up: streams share the hardware's queues
 * ($CUDA_DEVICE_MAX_CONNECTIONS, 8 without it), and what is behind another's wait in one of them stands as
 * well.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "facts_held.h"

#define MOST 40
#define BESIDE 64
#define SAID_MAX 512

enum kind { WRITE, FILL, COPY, KINDS };
static const char *const kind_names[] = {"cuStreamWriteValue64", "cuMemsetD32Async",
					 "cuMemcpyDtoHAsync"};

/* How a probe goes. */
enum {
	PAIRS = 1,  /* each held stream has one that waits for its event */
	BEFORE = 2, /* the further ones were made, and used, before the held ones */
};

static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, MOST};

static cu_deviceptr memory;
static int connections; /* that are asked for; 0: as many as there are without */

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
	char text[16];

	snprintf(text, sizeof(text), "%d", connections);
	if (connections)
		setenv("CUDA_DEVICE_MAX_CONNECTIONS", text, 1);
	else
		unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	facts_say("CUDA_DEVICE_MAX_CONNECTIONS", "%s", connections ? text : "not set");
	held_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&memory, BLOCK));
	facts_must("cuMemsetD8", cu.cuMemsetD8_v2(memory, 1, BLOCK));
	for (enum kind kind = 0; kind < KINDS; kind++) /* what it has to make for them is made */
		if (!comes(held_stream(), kind))
			facts_say("GIVEN UP", "%s beside nothing", kind_names[kind]);
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
}

static const char *setting(int how)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s%s", how & PAIRS ? "held pairs" : "held",
		 how & BEFORE ? ", the further one made before" : "");
	if (connections)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %d connections",
			 connections);
	return text;
}

/* How many streams that makes. */
static int hold_one_more(int how, cu_stream out[2])
{
	out[0] = held_stream();
	held_up(out[0]);
	if (!(how & PAIRS))
		return 1;
	out[1] = held_behind(out[0]);
	return 2;
}

static void say_first(int how, enum kind kind, int first)
{
	char question[200];

	snprintf(question, sizeof(question), "%s: %s in a further stream", setting(how),
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
static void ask_beside(int how, int held, cu_stream before[KINDS], int first[KINDS])
{
	cu_stream streams[2 * MOST + KINDS];
	int count = 0;

	for (int i = 0; i < held; i++)
		count += hold_one_more(how, &streams[count]);
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

static void ask_growing(int how)
{
	cu_stream before[KINDS] = {NULL};
	int first[KINDS] = {0};

	for (enum kind kind = 0; how & BEFORE && kind < KINDS; kind++) {
		before[kind] = held_stream();
		comes(before[kind], kind);
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		ask_beside(how, counts[i], before, first);
	for (enum kind kind = 0; kind < KINDS; kind++)
		say_first(how, kind, first[kind]);
	end_all(before, how & BEFORE ? KINDS : 0);
}

static void say_which(int how)
{
	char question[200], standing[SAID_MAX] = "";
	size_t used = 0;

	for (int i = 0; i < BESIDE; i++)
		if (!__atomic_load_n(held_word(i), __ATOMIC_SEQ_CST) && used < SAID_MAX - 8)
			used += (size_t)sprintf(standing + used, " %d", i + 1);
	snprintf(question, sizeof(question), "%s: of %d further streams these stand beside one",
		 setting(how), BESIDE);
	facts_say(question, "%s", used ? standing + 1 : "none");
}

/* One that is held, or one and what is behind it, and many others, each with a word to write. */
static void ask_which(int how)
{
	cu_stream streams[2 + BESIDE];
	int count = hold_one_more(how, streams);

	for (int i = 0; i < BESIDE; i++) {
		*held_word(i) = 0;
		streams[count] = held_stream();
		facts_must(
		    "cuStreamWriteValue64",
		    cu.cuStreamWriteValue64_v2(streams[count++], (uintptr_t)held_word(i), 1, 0));
	}
	usleep(HELD_PATIENCE_MS * 1000);
	say_which(how);
	end_all(streams, count);
}

static void ask_all(int with)
{
	connections = with;
	set_up();
	for (int pairs = 0; pairs <= PAIRS; pairs++) {
		ask_which(pairs);
		ask_growing(pairs);
		if (!with)
			ask_growing(BEFORE | pairs);
	}
}

void facts_queues(void)
{
	held_probe(ask_all, 0);
	held_probe(ask_all, 32);
}
