/* SPDX-License-Identifier: MIT */
/* Connections that are not answered in time: the registry may be about to make them the session's. */
#include "unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client_internal.h"
#include "descriptors.h"
#include "raw.h"
#include "scripted.h"

static struct client *client;

static int set_up(void **state)
{
	struct client_options options = {.who = "unit", .timeout_ms = 2 * CLIENT_PATIENCE_MS};

	if (scripted_set_up(state))
		return -1;
	options.directory = scripted.directory;
	scripted_start();
	client = client_new(&options);
	return client ? 0 : -1;
}

static int tear_down(void **state)
{
	client = client_free(client);
	return scripted_tear_down(state);
}

static int stat_it(void)
{
	client->request = (request){.which_verb = gpushare_Request_stat_tag};
	return client_call(client, 0);
}

static unsigned int ended(void)
{
	unsigned int count;

	scripted_lock();
	count = scripted.ended;
	scripted_unlock();
	return count;
}

static void assert_ended(unsigned int count)
{
	long long until_ms = raw_now_ms() + RAW_TIMEOUT_MS;

	while (ended() < count && raw_now_ms() < until_ms)
		raw_sleep_ms(5);
	assert_int_equal(ended(), count);
}

/* What would have ended has had the time to. */
static void assert_stands(unsigned int count)
{
	raw_sleep_ms(50);
	assert_int_equal(ended(), count);
}

static void mute(pb_size_t verb)
{
	scripted_lock();
	scripted.mute_at = verb;
	scripted_unlock();
}

static int hellos(void)
{
	int count;

	scripted_lock();
	count = (int)scripted.asked[gpushare_Request_hello_tag];
	scripted_unlock();
	return count;
}

static void nap(unsigned int ms)
{
	scripted_lock();
	scripted.nap_ms = ms;
	scripted_unlock();
}

/* Not answered: the hello to a registry that came since. `times`: that often. */
static void resume_in_vain(int times)
{
	assert_int_equal(stat_it(), GPUSHARE_OK);
	scripted_end();
	scripted_start();
	mute(gpushare_Request_hello_tag);
	for (int i = 0; i < times; i++)
		assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
}

static void it_stands_until_the_next_one_is_answered(void **state)
{
	(void)state;
	resume_in_vain(1);
	assert_int_equal(hellos(), 3);
	assert_stands(0);
	mute(0);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_ended(2);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_int_equal(hellos(), 4);
}

/* With it the session would end, and the names with that, as soon as the registry goes on. */
static void a_late_answer_costs_no_names(void **state)
{
	(void)state;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	mute(gpushare_Request_stat_tag);
	assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
	assert_true(client->fd < 0);
	assert_stands(0);
	mute(0);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_ended(1);
}

static void a_later_one_says_so(void **state)
{
	uint32_t first;

	(void)state;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	first = scripted.attempt;
	assert_int_not_equal(first, 0);
	scripted_end();
	scripted_start();
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_true(scripted.attempt > first);
}

static void without_a_session_there_is_nothing_to_lose(void **state)
{
	(void)state;
	scripted.old = true;
	assert_int_equal(stat_it(), GPUSHARE_OK);
	mute(gpushare_Request_stat_tag);
	assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
	assert_ended(1);
}

static void they_are_not_more_and_more(void **state)
{
	(void)state;
	client->timeout_ms = 40;
	resume_in_vain(CLIENT_GIVEN_UP + 4);
	assert_ended(4);
	client->timeout_ms = 2000;
	mute(0);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_ended(CLIENT_GIVEN_UP + 4);
}

/* The session is its whose hello was answered last, were it too late; with that one it would end. */
static void the_one_that_has_the_session_stays(void **state)
{
	struct client_socket late;

	(void)state;
	client->timeout_ms = 40;
	resume_in_vain(1);
	mute(0);
	nap(100);
	assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
	raw_sleep_ms(200);
	nap(0);
	assert_int_equal(client->given_up_count, 2);
	late = client->given_up[1];
	mute(gpushare_Request_hello_tag);
	for (int i = 2; i < CLIENT_GIVEN_UP + 3; i++)
		assert_int_equal(stat_it(), GPUSHARE_E_TIMED_OUT);
	assert_int_equal(client->given_up_count, CLIENT_GIVEN_UP);
	assert_true(client_socket_is_ours(&late));
	assert_int_equal(client->given_up[0].fd, late.fd);
	assert_ended(3);
	client->timeout_ms = 2000;
	mute(0);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	assert_ended(CLIENT_GIVEN_UP + 3);
}

/* Their registry has ended: nothing is to be kept of it. */
static void with_their_registry_they_go(void **state)
{
	int before;

	(void)state;
	resume_in_vain(1);
	scripted_end();
	before = descriptors_open();
	assert_int_equal(stat_it(), GPUSHARE_E_NO_REGISTRY);
	assert_int_equal(descriptors_open(), before - 2);
	mute(0);
	scripted_start();
	assert_int_equal(stat_it(), GPUSHARE_OK);
}

static void with_the_client_they_go(void **state)
{
	(void)state;
	resume_in_vain(1);
	client = client_free(client);
	assert_ended(2);
}

/* Or the parent's names would live as long as the child does. */
static void a_forked_child_drops_its_copies(void **state)
{
	int status, pid;

	(void)state;
	resume_in_vain(1);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int before = descriptors_open();

		client_disconnect(client);
		_exit(before - descriptors_open());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 2);
	assert_stands(0);
}

/* The program has closed all that it found, and opened something of its own there. */
static void what_has_taken_their_place_is_left_alone(void **state)
{
	int fds[2], count = 0;

	(void)state;
	resume_in_vain(1);
	for (unsigned int i = 0; i < client->given_up_count; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_int_equal(dup3(fds[i], client->given_up[i].fd, O_CLOEXEC),
				 client->given_up[i].fd);
		close(fds[i]);
		fds[i] = client->given_up[i].fd;
		count++;
	}
	assert_int_equal(count, 2);
	assert_ended(2);
	mute(0);
	assert_int_equal(stat_it(), GPUSHARE_OK);
	for (int i = 0; i < count; i++)
		assert_int_equal(close(fds[i]), 0);
}

#define scripted_test(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    scripted_test(it_stands_until_the_next_one_is_answered),
	    scripted_test(a_late_answer_costs_no_names),
	    scripted_test(a_later_one_says_so),
	    scripted_test(without_a_session_there_is_nothing_to_lose),
	    scripted_test(they_are_not_more_and_more),
	    scripted_test(the_one_that_has_the_session_stays),
	    scripted_test(with_their_registry_they_go),
	    scripted_test(with_the_client_they_go),
	    scripted_test(a_forked_child_drops_its_copies),
	    scripted_test(what_has_taken_their_place_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
