/* SPDX-License-Identifier: MIT */
#include "successor.h"

#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/restore.h"

char successor_folder[64];

static uint32_t last_id;

static void start(void)
{
	peer_registry = registry_new();
	assert_non_null(peer_registry);
	assert_true(restore_open(peer_registry, successor_folder));
}

int successor_set_up(void **state)
{
	(void)state;
	strcpy(successor_folder, "/tmp/gpushare-unit-XXXXXX");
	if (!mkdtemp(successor_folder))
		return -1;
	start();
	return 0;
}

int successor_tear_down(void **state)
{
	char command[128];

	(void)state;
	registry_let_go(peer_registry, false);
	peer_registry = registry_free(peer_registry);
	snprintf(command, sizeof(command), "rm -rf %s", successor_folder);
	return system(command);
}

void successor_start(void)
{
	peer_registry = registry_free(peer_registry);
	start();
}

struct session *successor_resume(pid_t pid, const uint8_t key[GPUSHARE_SESSION_KEY_SIZE])
{
	request what = {.which_verb = gpushare_Request_hello_tag};
	struct process process;
	struct session *session;

	process_read(pid, getuid(), &process);
	assert_true(!pid || process.started); /* 0: of another pid namespace */
	session = registry_connect(peer_registry, ++last_id, &process);
	assert_non_null(session);
	what.verb.hello.protocol = GPUSHARE_PROTOCOL;
	if (key)
		memcpy(what.verb.hello.resume, key, GPUSHARE_SESSION_KEY_SIZE);
	assert_int_equal(peer_ask(session, &what), GPUSHARE_OK);
	return session;
}

struct session *successor_connect(pid_t pid)
{
	return successor_resume(pid, NULL);
}

pid_t successor_process(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

void successor_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

request successor_share(const char *name, uint32_t flags)
{
	request what = peer_share_fd(name);

	what.verb.share.buffer.flags = flags;
	return what;
}

const record *successor_seen(struct session *session, const char *name)
{
	assert_int_equal(peer_lookup(session, name, 0), GPUSHARE_OK);
	return &peer_answer.body.lookup.buffer;
}

void successor_tell(request *what, const char *name, uint64_t generation, uint32_t count)
{
	gpushare_Resync *resync = &what->verb.resync;
	gpushare_Hold *hold = count ? &resync->attached[resync->attached_count++]
				    : &resync->shared[resync->shared_count++];

	what->which_verb = gpushare_Request_resync_tag;
	strcpy(hold->name, name);
	hold->generation = generation;
	hold->count = count;
}
