/* SPDX-License-Identifier: MIT */
/* What a stream waits for that waits for the interprocess event of a process which is killed before its own
 * stream came there. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

#define PATIENCE_MS 2000

/* Records behind a word that nobody writes, and stays. */
static void record_and_stay(int from, int to)
{
	void *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cu_ipc_event_handle handle;
	cu_stream stream;
	cu_deviceptr at;
	cu_event event;
	char byte;

	facts_start();
	facts_must("cuMemHostRegister",
		   cu.cuMemHostRegister_v2(word, 4096, CU_HOST_REGISTER_MAPPED));
	facts_must("cuMemHostGetDevicePointer", cu.cuMemHostGetDevicePointer_v2(&at, word, 0));
	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	facts_must("cuEventCreate", cu.cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING));
	facts_must("cuStreamWaitValue64", cu.cuStreamWaitValue64_v2(stream, at, 1, CU_WAIT_GEQ));
	facts_must("cuEventRecord", cu.cuEventRecord(event, stream));
	facts_must("cuIpcGetEventHandle", cu.cuIpcGetEventHandle(&handle, event));
	facts_send(to, &handle, sizeof(handle));
	facts_receive(from, &byte, 1);
}

/* Behind a wait for the other's. */
static cu_event wait_behind(cu_event others)
{
	cu_stream stream;
	cu_event behind;

	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	facts_must("cuEventCreate", cu.cuEventCreate(&behind, CU_EVENT_NO_TIMING));
	facts_ask("cuStreamWaitEvent", cu.cuStreamWaitEvent(stream, others, 0));
	facts_must("cuEventRecord", cu.cuEventRecord(behind, stream));
	return behind;
}

static void say_when(const char *question, cu_event event)
{
	double began = facts_ms();
	cu_result result;

	while ((result = cu.cuEventQuery(event)) == CU_NOT_READY &&
	       facts_ms() - began < PATIENCE_MS)
		usleep(1000);
	facts_say(question, "%s after %.0f ms", facts_code(result), facts_ms() - began);
}

void facts_event_killed(void)
{
	struct facts_peer peer;
	cu_ipc_event_handle handle;
	cu_event others, behind;

	facts_peer_start(&peer, record_and_stay);
	facts_start();
	if (!facts_receive(peer.from, &handle, sizeof(handle))) {
		facts_say("GIVEN UP", "the peer said nothing");
		_exit(1);
	}
	facts_must("cuIpcOpenEventHandle", cu.cuIpcOpenEventHandle(&others, handle));
	behind = wait_behind(others);
	facts_ask("cuEventQuery of a killed process's event, before that", cu.cuEventQuery(others));
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	say_when("what waits for it", behind);
	say_when("the event itself", others);
	say_when("what waits for it from then on", wait_behind(others));
	facts_ask("a handle of it that is opened then", cu.cuIpcOpenEventHandle(&others, handle));
	fflush(stdout);
	_exit(0); /* past what would wait for those streams */
}
