/* SPDX-License-Identifier: MIT */
/* Processes that the kernel doesn't tell the registry: two connections of one, and equal pids of two. */
#include "unit.h"

#include <unistd.h>

#include "client_internal.h"
#include "peer.h"
#include "os/process.h"

static void a_client_says_what_the_kernel_would(void **state)
{
	struct process process;
	gpushare_Self self;

	(void)state;
	process_read(getpid(), getuid(), &process);
	client_self(&self);
	assert_int_equal(self.pid, getpid());
	assert_int_equal(self.started, process.started);
	assert_true(self.started > 0 && self.pid_namespace > 0);
}

/* A peer of which the kernel tells `pid`, and which says that of itself. */
static struct session *says(uint32_t id, int32_t pid, uint64_t pid_namespace, int32_t own_pid,
			    uint64_t started)
{
	request hello = {.which_verb = gpushare_Request_hello_tag};
	struct session *session = peer_new(id, pid, "");

	hello.verb.hello.protocol = GPUSHARE_PROTOCOL;
	hello.verb.hello.has_self = true;
	hello.verb.hello.self = (gpushare_Self){pid_namespace, own_pid, started};
	assert_int_equal(peer_ask(session, &hello), GPUSHARE_OK);
	return session;
}

static bool owns(struct session *session, const char *name)
{
	assert_int_equal(peer_attach(session, name), GPUSHARE_OK);
	return peer_answer.body.attach.own;
}

static void one_process_is_told_from_others_by_what_it_says(void **state)
{
	(void)state;
	peer_share(says(1, 0, 77, 1, 500), "w");
	assert_true(owns(says(2, 0, 77, 1, 500), "w"));
	assert_false(owns(says(3, 0, 78, 1, 500), "w")); /* another container's first process */
	assert_false(owns(says(4, 0, 77, 2, 500), "w"));
	assert_false(owns(says(5, 0, 77, 1, 501), "w"));
	assert_false(owns(says(6, 0, 0, 1, 500), "w"));
	assert_false(owns(peer_new(7, 0, ""), "w"));
	peer_share(says(8, 0, 0, 1, 500), "nobody");
	assert_false(owns(says(9, 0, 0, 1, 500), "nobody"));
}

static void whom_the_kernel_tells_is_not_asked(void **state)
{
	(void)state;
	peer_share(says(1, 20, 77, 1, 500), "w");
	assert_true(owns(says(2, 20, 78, 3, 4), "w"));
	assert_false(owns(says(3, 21, 77, 1, 500), "w"));
	assert_false(owns(says(4, 0, 77, 1, 500), "w"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_says_what_the_kernel_would),
	    cmocka_unit_test_setup_teardown(one_process_is_told_from_others_by_what_it_says,
					    peer_set_up, peer_tear_down),
	    cmocka_unit_test_setup_teardown(whom_the_kernel_tells_is_not_asked, peer_set_up,
					    peer_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
