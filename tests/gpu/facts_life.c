/* SPDX-License-Identifier: MIT */
/* What ends with a context, and what a free waits for. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "facts.h"

/* The importer: opens each handle it is sent and answers how that went; at the end it touches the
 * first. */
static void import_each(int from, int to)
{
	cu_deviceptr first = 0, pointer;
	cu_ipc_mem_handle handle;

	facts_start();
	while (facts_receive(from, &handle, sizeof(handle))) {
		cu_result result =
		    cu.cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS);

		if (!first && result == CU_OK)
			first = pointer;
		if (first)
			facts_ask("an importer that has it open: cuMemsetD8",
				  cu.cuMemsetD8_v2(first, 1, BLOCK));
		facts_send(to, &result, sizeof(result));
	}
}

static void try_open(struct facts_peer *peer, const cu_ipc_mem_handle *handle, const char *question)
{
	cu_result result;

	facts_send(peer->to, handle, sizeof(*handle));
	if (facts_receive(peer->from, &result, sizeof(result)))
		facts_ask(question, result);
}

static cu_result reset(cu_context context)
{
	return cu.cuDevicePrimaryCtxReset_v2(facts_device);
}

static cu_result release(cu_context context)
{
	return cu.cuDevicePrimaryCtxRelease_v2(facts_device);
}

static cu_result destroy(cu_context context)
{
	return cu.cuCtxDestroy_v2(context);
}

static void context_ends(const char *how, cu_result (*end)(cu_context), bool own_context)
{
	cu_deviceptr first, second, pooled, fresh;
	cu_ipc_mem_handle first_handle, second_handle;
	cu_context context, current = NULL;
	struct facts_peer peer;

	facts_peer_start(&peer, import_each);
	facts_start();
	context = facts_context;
	if (own_context)
		facts_must("cuCtxCreate", cu.cuCtxCreate_v2(&context, 0, facts_device));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&first, BLOCK));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&second, BLOCK));
	facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&pooled, BLOCK, NULL));
	facts_must("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&first_handle, first));
	facts_must("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&second_handle, second));
	try_open(&peer, &first_handle, "an importer opens the first, before");
	facts_ask(how, end(context));
	facts_ask("cuCtxGetCurrent then", cu.cuCtxGetCurrent(&current));
	facts_say("  is it the old context", "%s", current == context ? "yes" : "no");
	facts_ask("cuMemFree of an old pointer", cu.cuMemFree_v2(first));
	facts_ask("cuMemAlloc without more ado", cu.cuMemAlloc_v2(&fresh, BLOCK));
	try_open(&peer, &second_handle, "an importer opens the second, after");
	try_open(&peer, &first_handle, "an importer opens the first again");
	facts_ask("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&current, facts_device));
	facts_say("  the same context as before", "%s", current == facts_context ? "yes" : "no");
	facts_ask("cuCtxSetCurrent", cu.cuCtxSetCurrent(current));
	facts_ask("cuMemFree of an old pointer", cu.cuMemFree_v2(first));
	facts_ask("cuMemFreeAsync of an old pool pointer", cu.cuMemFreeAsync(pooled, NULL));
	facts_ask("cuMemAlloc", cu.cuMemAlloc_v2(&fresh, BLOCK));
	facts_say("  an old address again", "%s", fresh == first || fresh == second ? "yes" : "no");
	facts_ask("the context at the end", cu.cuCtxSynchronize());
	facts_peer_end(&peer);
}

void facts_context_reset(void)
{
	context_ends("cuDevicePrimaryCtxReset", reset, false);
}

void facts_context_release(void)
{
	context_ends("cuDevicePrimaryCtxRelease, the last", release, false);
}

void facts_context_destroy(void)
{
	context_ends("cuCtxDestroy", destroy, true);
}

/* Work that takes its time: on a simulated device a word that comes late. */
#define CHAIN (facts_simulated() ? 1U : 600U)
#define CHAIN_SIZE (facts_simulated() ? BLOCK : 2048 * MIB)
#define LATE_US 50000

static void *store_late(void *word)
{
	usleep(LATE_US);
	__atomic_store_n((unsigned int *)word, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void hold_up(cu_stream stream)
{
	pthread_t thread;
	void *word;

	facts_must("cuMemHostAlloc", cu.cuMemHostAlloc(&word, 4096, 0));
	facts_must("cuStreamWaitValue32",
		   cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
	facts_must("pthread_create", pthread_create(&thread, NULL, store_late, word));
	facts_must("pthread_detach", pthread_detach(thread));
}

static void export_big(int from, int to)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer;
	char word;

	facts_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, CHAIN_SIZE));
	facts_must("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&handle, pointer));
	facts_send(to, &handle, sizeof(handle));
	facts_receive(from, &word, 1);
}

static cu_stream enqueue(cu_deviceptr at)
{
	double started = facts_ms();
	cu_stream stream;

	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	if (facts_simulated())
		hold_up(stream);
	for (unsigned int i = 0; i < CHAIN; i++)
		facts_must("cuMemsetD32Async", cu.cuMemsetD32Async(at, i, CHAIN_SIZE / 4, stream));
	facts_say("work enqueued", "%u times %zu MiB set, in %.1f ms", CHAIN, CHAIN_SIZE / MIB,
		  facts_ms() - started);
	facts_ask("cuStreamQuery before", cu.cuStreamQuery(stream));
	return stream;
}

static void report(const char *what, cu_result result, double took, cu_stream stream)
{
	double started;

	facts_say(what, "%s, took %.3f ms", facts_code(result), took);
	facts_ask("cuStreamQuery right after", cu.cuStreamQuery(stream));
	started = facts_ms();
	result = cu.cuStreamSynchronize(stream);
	facts_say("cuStreamSynchronize then", "%s, took %.3f ms", facts_code(result),
		  facts_ms() - started);
	facts_ask("the context at the end", cu.cuCtxSynchronize());
}

static void wait_close(bool uses_it)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr mapping, own;
	struct facts_peer peer;
	cu_stream stream;
	cu_result result;
	double started;

	facts_peer_start(&peer, export_big);
	facts_start();
	if (!facts_receive(peer.from, &handle, sizeof(handle)))
		return;
	facts_must("cuIpcOpenMemHandle",
		   cu.cuIpcOpenMemHandle_v2(&mapping, handle, CU_IPC_LAZY_PEER_ACCESS));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&own, CHAIN_SIZE));
	stream = enqueue(uses_it ? mapping : own);
	started = facts_ms();
	result = cu.cuIpcCloseMemHandle(mapping);
	report(uses_it ? "cuIpcCloseMemHandle of what the work uses"
		       : "cuIpcCloseMemHandle of what the work does not use",
	       result, facts_ms() - started, stream);
	facts_peer_end(&peer);
}

void facts_wait_close(void)
{
	wait_close(true);
}

void facts_wait_close_other(void)
{
	wait_close(false);
}

void facts_wait_free(void)
{
	cu_deviceptr pointer, other;
	cu_stream stream;
	double started;
	cu_result result;

	facts_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, CHAIN_SIZE));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&other, CHAIN_SIZE));
	stream = enqueue(pointer);
	started = facts_ms();
	result = cu.cuMemFree_v2(pointer);
	report("cuMemFree of what the work uses", result, facts_ms() - started, stream);
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, CHAIN_SIZE));
	stream = enqueue(pointer);
	started = facts_ms();
	result = cu.cuMemFree_v2(other);
	report("cuMemFree of what the work does not use", result, facts_ms() - started, stream);
}

void facts_wait_unmap(void)
{
	cu_mem_prop prop;
	cu_mem_handle handle, unused;
	cu_deviceptr at, unused_at;
	cu_stream stream;
	double started;
	cu_result result;

	facts_start();
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	facts_must("cuMemCreate", cu.cuMemCreate(&handle, CHAIN_SIZE, &prop, 0));
	facts_must("cuMemCreate", cu.cuMemCreate(&unused, CHAIN_SIZE, &prop, 0));
	at = facts_map(handle, CHAIN_SIZE);
	unused_at = facts_map(unused, CHAIN_SIZE);
	stream = enqueue(at);
	started = facts_ms();
	result = cu.cuMemUnmap(unused_at, CHAIN_SIZE);
	report("cuMemUnmap of what the work does not use", result, facts_ms() - started, stream);
	stream = enqueue(at);
	started = facts_ms();
	result = cu.cuMemUnmap(at, CHAIN_SIZE);
	report("cuMemUnmap of what the work uses", result, facts_ms() - started, stream);
}
