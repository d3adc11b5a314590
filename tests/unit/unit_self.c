/* SPDX-License-Identifier: MIT */
/* Which process a client is: as the kernel tells the daemon, and as the client says if the
 * daemon can't see it. */
#include "unit.h"

#include "client/client.h"
#include "os/process.h"
#include "raw_peer.h"

static void a_client_says_what_the_kernel_would(void **state)
{
	struct process process;
	gpushare_Self self;

	process_read(getpid(), getuid(), &process);
	client_self(&self);
	assert_int_equal(self.pid, getpid());
	assert_int_equal(self.started, process.started);
	assert_true(self.started > 0 && self.pid_namespace > 0);
}

/* Send a hello with that identity on a connection that was greeted; return `fd`. */
static int say(int fd, uint64_t pid_namespace, int32_t pid, uint64_t started)
{
	request hello = raw_hello_request();

	hello.verb.hello.has_self = true;
	hello.verb.hello.self = (gpushare_Self){pid_namespace, pid, started};
	assert_int_equal(raw_say(fd, hello), GPUSHARE_OK);
	return fd;
}

static int says(uint64_t pid_namespace, int32_t pid, uint64_t started)
{
	return say(raw_greet(&raw_here), pid_namespace, pid, started);
}

/* Only the owner's process is told the address. */
static bool owns(int fd, const char *name)
{
	const gpushare_AttachReply *got = &raw_answer.body.attach;

	assert_int_equal(raw_say(fd, raw_attach(name, 0)), GPUSHARE_OK);
	assert_int_equal(got->own, got->buffer.address != 0);
	return got->own;
}

/* Start the daemon in a pid namespace of its own, which contains none of its clients. */
static int set_up_apart(void **state)
{
	int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC), failed;

	*state = NULL;
	if (ours < 0 || geteuid() || unshare(CLONE_NEWPID))
		return 0;
	failed = raw_set_up(state);
	*state = &raw_here;
	return setns(ours, CLONE_NEWPID) || close(ours) || failed;
}

static int tear_down_apart(void **state)
{
	return *state ? raw_tear_down(state) : 0;
}

static void one_process_is_told_from_others_by_what_it_says(void **state)
{
	if (!*state) {
		printf("skipped: only root puts the daemon into a pid namespace\n");
		skip();
	}
	assert_int_equal(raw_say(says(77, 1, 500), raw_share("w")), GPUSHARE_OK);
	assert_int_equal(raw_say(says(0, 1, 500), raw_share("nobody")), GPUSHARE_OK);
	assert_true(owns(says(77, 1, 500), "w"));
	assert_false(owns(says(78, 1, 500), "w")); /* another container's first process */
	assert_false(owns(says(77, 2, 500), "w"));
	assert_false(owns(says(77, 1, 501), "w")); /* another process has the pid since */
	assert_false(owns(says(0, 1, 500), "w"));
	assert_false(owns(raw_connect(&raw_here), "w"));
	assert_false(owns(says(0, 1, 500), "nobody"));
}

static void whom_the_kernel_tells_is_not_asked(void **state)
{
	int other = say(raw_peer_greeted(0), 77, 1, 500);

	assert_int_equal(raw_say(says(77, 1, 500), raw_share("w")), GPUSHARE_OK);
	assert_true(owns(says(78, 3, 4), "w"));
	assert_false(owns(other, "w"));
	raw_peers_end();
}

UNIT_MAIN(UNIT(a_client_says_what_the_kernel_would),
	  cmocka_unit_test_setup_teardown(one_process_is_told_from_others_by_what_it_says,
					  set_up_apart, tear_down_apart),
	  RAW_TEST(whom_the_kernel_tells_is_not_asked))
