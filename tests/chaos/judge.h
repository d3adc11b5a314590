/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_JUDGE_H
#define TESTS_CHAOS_JUDGE_H
/*
 * What must hold when all workers are dead. Only kept names are left, each with its contents. When
 * those are removed, the registry's descriptors and the GPU's memory are as at the start.
 */
#include <dlfcn.h>

#include "chaos.h"
#include "cuda/cuda_abi.h"
#include "gpushare.h"
#include "sizes.h"

#define JUDGE_NAME 40
#define JUDGE_KEEPER_FDS 4 /* its listening socket, /dev/null twice, its registry's connection */

/* Limits for a registry, however much it has handled. */
#define JUDGE_MEMORY_KIB 4096
#define JUDGE_THREADS 2
#define JUDGE_STATE_BYTES (9L << 17)

/* What one kill left, or may have left, under a name with the keep flag. */
struct kept {
	char name[JUDGE_NAME];
	size_t size;
	uint64_t seed;
	bool must;    /* the name must exist */
	bool known;   /* the contents must be the seed's pattern */
	char how[64]; /* the moment and kind of the kill */
};

struct judge {
	struct gpushare_session *session;
	const char *directory;
	int64_t deadline_ns;
	cu_context context;
	cu_cuMemGetInfo_v2_call *memory_info;
	size_t free_at_start;
	struct sizes at_start, settled; /* when everything that is made only once exists */
	int faults;
	int most_names;
};
static struct judge judge;

__attribute__((format(printf, 1, 2))) static void judge_fault(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("chaos: ");
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
	judge.faults++;
}

static size_t judge_free_memory(void)
{
	size_t free_bytes = 0, total = 0;

	judge.memory_info(&free_bytes, &total);
	return free_bytes;
}

struct count {
	int names, alive;
	char stale[GPUSHARE_NAME_MAX + 1];
};

static int judge_count_one(const struct gpushare_info *info, void *user)
{
	struct count *count = user;

	count->names++;
	if (info->owner_alive || info->attachers) {
		count->alive++;
		snprintf(count->stale, sizeof(count->stale), "%s", info->name);
	}
	return 0;
}

static struct count judge_count(void)
{
	struct count count = {0};
	int status = gpushare_list(judge.session, NULL, judge_count_one, &count);

	if (status)
		judge_fault("the names can't be listed: %s", gpushare_explain());
	return count;
}

/* All workers are dead, but the registry may need a moment to notice. */
static void judge_stale(void)
{
	int64_t deadline = chaos_now_ns() + judge.deadline_ns;
	struct count count = judge_count();

	while (count.alive && chaos_now_ns() < deadline) {
		chaos_nap_us(2000);
		count = judge_count();
	}
	if (count.alive)
		judge_fault("%d stale names or attachments, one is '%s'", count.alive, count.stale);
	if (count.names > judge.most_names)
		judge.most_names = count.names;
}

static void judge_contents(const struct kept *kept, struct gpushare_buffer *buffer)
{
	unsigned char *bytes = malloc(kept->size);

	if (gpushare_size(buffer) != kept->size)
		judge_fault("'%s' (%s) has %zu bytes, not %zu", kept->name, kept->how,
			    gpushare_size(buffer), kept->size);
	else if (!bytes || gpushare_copy_from(buffer, 0, bytes, kept->size))
		judge_fault("'%s' (%s) can't be read: %s", kept->name, kept->how,
			    gpushare_explain());
	else if (kept->known && !chaos_is_pattern(bytes, kept->size, kept->seed))
		judge_fault("'%s' (%s) has lost its contents", kept->name, kept->how);
	free(bytes);
}

static void judge_one(const struct kept *kept)
{
	struct gpushare_buffer *buffer;
	int status = gpushare_attach(judge.session, kept->name, NULL, &buffer);

	if (status == GPUSHARE_E_NOT_FOUND && !kept->must)
		return;
	if (status) {
		judge_fault("'%s' (%s) was kept, and can't be attached: %s", kept->name, kept->how,
			    gpushare_explain());
		return;
	}
	judge_contents(kept, buffer);
	if (gpushare_detach(buffer))
		judge_fault("'%s' can't be detached: %s", kept->name, gpushare_explain());
	if (gpushare_unlink(judge.session, kept->name))
		judge_fault("'%s' can't be removed: %s", kept->name, gpushare_explain());
}

/* Registry and GPU must be as at the start before the deadline ends. */
static void judge_leaks(void)
{
	const struct sizes *start = &judge.at_start;
	int64_t deadline = chaos_now_ns() + judge.deadline_ns;
	struct sizes now = sizes_now(judge.directory);
	size_t free_bytes = judge_free_memory();

	while ((now.fds > start->fds || now.keeper_fds > start->keeper_fds ||
		free_bytes < judge.free_at_start) &&
	       chaos_now_ns() < deadline) {
		chaos_nap_us(5000);
		now = sizes_now(judge.directory);
		free_bytes = judge_free_memory();
	}
	if (now.fds > start->fds || now.fds < 0)
		judge_fault("the registry has %ld descriptors, at the start it had %ld", now.fds,
			    start->fds);
	if (now.keeper_fds > start->keeper_fds)
		judge_fault("its keeper has %ld descriptors, at the start it had %ld",
			    now.keeper_fds, start->keeper_fds);
	if (free_bytes < judge.free_at_start)
		judge_fault("the GPU has %zu bytes free, at the start it had %zu", free_bytes,
			    judge.free_at_start);
}

/* Nothing may grow with the number of kills. */
static void judge_growth(void)
{
	struct sizes now = sizes_now(judge.directory);

	if (judge.settled.pid != now.pid)
		judge.settled = now;
	if (now.anonymous_kib > judge.settled.anonymous_kib * 3 / 2 + JUDGE_MEMORY_KIB)
		judge_fault("the registry has %ld KiB of memory, it had %ld", now.anonymous_kib,
			    judge.settled.anonymous_kib);
	if (now.threads > judge.at_start.threads + JUDGE_THREADS)
		judge_fault("the registry has %ld threads, at the start it had %ld", now.threads,
			    judge.at_start.threads);
	if (now.state_bytes > JUDGE_STATE_BYTES)
		judge_fault("registry.state has %ld bytes", now.state_bytes);
}

static void judge_batch(const struct kept *kept, size_t count)
{
	int names;

	judge_stale();
	for (size_t i = 0; i < count; i++)
		judge_one(&kept[i]);
	names = judge_count().names;
	if (names)
		judge_fault("%d names are left that nobody kept", names);
}

/* Make a context of this process, to ask how much memory is free. */
static bool judge_open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;

#define CALL(name) cu_##name##_call *name = library ? dlsym(library, #name) : NULL
	CALL(cuInit);
	CALL(cuDeviceGet);
	CALL(cuDevicePrimaryCtxRetain);
	CALL(cuCtxSetCurrent);
#undef CALL
	judge.memory_info = library ? dlsym(library, "cuMemGetInfo_v2") : NULL;
	return cuInit && cuDeviceGet && cuDevicePrimaryCtxRetain && cuCtxSetCurrent &&
	       judge.memory_info && !cuInit(0) && !cuDeviceGet(&device, 0) &&
	       !cuDevicePrimaryCtxRetain(&judge.context, device) && !cuCtxSetCurrent(judge.context);
}

/* Pay the lasting costs of every first use before the start is measured. */
static bool judge_warm_up(void)
{
	const struct gpushare_alloc_options options = {.device = -1, .flags = GPUSHARE_FLAG_KEEP};
	struct gpushare_buffer *made, *seen;
	unsigned char byte = 1;

	if (gpushare_alloc_with(judge.session, "warm", 1, &options, &made) ||
	    gpushare_attach(judge.session, "warm", NULL, &seen) ||
	    gpushare_copy_to(made, 0, &byte, 1) || gpushare_copy_from(seen, 0, &byte, 1) ||
	    gpushare_detach(seen) || gpushare_free(made) || gpushare_unlink(judge.session, "warm"))
		return false;
	/*
	 * The keeper starts by itself, on a busy machine later than all of that. Wait until it has
	 * all its descriptors.
	 */
	for (int tries = 0; tries < 400 && sizes_now(judge.directory).keeper_fds < JUDGE_KEEPER_FDS;
	     tries++)
		chaos_nap_us(50000);
	chaos_nap_us(50000);
	judge.at_start = sizes_now(judge.directory);
	judge.free_at_start = judge_free_memory();
	return judge.at_start.fds > 0;
}

static bool judge_open(const char *directory, int64_t deadline_ns)
{
	judge.directory = directory;
	judge.deadline_ns = deadline_ns;
	if (!judge_open_driver())
		judge_fault("no driver that works");
	else if (gpushare_open(NULL, &judge.session))
		judge_fault("%s", gpushare_explain());
	else if (!judge_warm_up())
		judge_fault("the warm-up failed: %s", gpushare_explain());
	return !judge.faults;
}

#endif
