/* SPDX-License-Identifier: MIT */
#include "facts_held.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_SECONDS 10 /* at most, for the context */
#define PROBE_SECONDS 15 /* and from then on */
#define STANDS_MS 1000
#define SETTLE_US 20000

static uint64_t *volatile word; /* pinned; 1 lets all go */
static pthread_t later;
static bool comes_later; /* a thread is to let all go */

void held_let_go(void)
{
	if (word)
		__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
}

void held_again(void)
{
	if (comes_later)
		pthread_join(later, NULL);
	comes_later = false;
	facts_must("cuCtxSynchronize", cu.cuCtxSynchronize());
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Out of whatever waits for what is held up. */
static void let_go_and_end(int signal_number)
{
	static const char text[] = "GIVEN UP: a probe took too long\n";

	held_let_go();
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

static void probe(void (*run)(int user), int user)
{
	signal(SIGALRM, let_go_and_end);
	alarm(START_SECONDS);
	run(user);
	held_let_go();
	fflush(stdout);
	usleep(SETTLE_US); /* the GPU's work is not to be killed under way */
	_exit(0);
}

void held_probe(void (*run)(int user), int user)
{
	int status = 0, pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		probe(run, user);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		facts_say("GIVEN UP", "no process");
	else if (WIFSIGNALED(status))
		facts_say("GIVEN UP", "a probe was killed by signal %d", WTERMSIG(status));
}

void held_start(void)
{
	void *pinned = NULL;

	facts_start();
	alarm(PROBE_SECONDS);
	facts_must("cuMemHostAlloc", cu.cuMemHostAlloc(&pinned, 4096, CU_HOST_ALLOC_PORTABLE));
	word = memset(pinned, 0, 4096);
}

cu_stream held_stream(void)
{
	cu_stream stream = NULL;

	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	return stream;
}

void held_up(cu_stream stream)
{
	facts_must("cuStreamWaitValue64",
		   cu.cuStreamWaitValue64_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
}

static cu_event held_event(cu_stream stream)
{
	cu_event event = NULL;

	facts_must("cuEventCreate", cu.cuEventCreate(&event, CU_EVENT_NO_TIMING));
	facts_must("cuEventRecord", cu.cuEventRecord(event, stream));
	return event;
}

cu_stream held_behind(cu_stream stream)
{
	cu_stream behind = held_stream();
	cu_event event = held_event(stream);

	facts_must("cuStreamWaitEvent", cu.cuStreamWaitEvent(behind, event, 0));
	facts_must("cuEventDestroy", cu.cuEventDestroy_v2(event));
	return behind;
}

static void *let_go_later(void *ms)
{
	usleep((unsigned int)(uintptr_t)ms * 1000);
	held_let_go();
	return NULL;
}

void held_let_go_in(unsigned int ms)
{
	if (pthread_create(&later, NULL, let_go_later, (void *)(uintptr_t)ms)) {
		facts_say("GIVEN UP", "no thread");
		_exit(1);
	}
	comes_later = true;
}

struct asking {
	const char *question;
	atomic_bool answered;
};

static void *say_it_stands(void *user)
{
	struct asking *asking = user;

	for (int left_ms = STANDS_MS; left_ms; left_ms--) {
		if (atomic_load(&asking->answered))
			return NULL;
		usleep(1000);
	}
	facts_say(asking->question, "stands for %d ms", STANDS_MS);
	fflush(stdout);
	_exit(0);
}

void held_ask(const char *question, cu_result (*call)(void))
{
	struct asking asking = {question, false};
	pthread_t thread;
	cu_result result;

	if (pthread_create(&thread, NULL, say_it_stands, &asking)) {
		facts_say("GIVEN UP", "no thread");
		_exit(1);
	}
	result = call();
	atomic_store(&asking.answered, true);
	pthread_join(thread, NULL);
	facts_ask(question, result);
}
