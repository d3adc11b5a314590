/* SPDX-License-Identifier: MIT */
/* A registry is told of roles again while their last buffer goes, in another thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "api_order.h"
#include "client_internal.h"

static struct gpushare_session the_session;
static struct client the_client;
static struct gpushare_buffer the_buffer;
static struct ordering the_ordering;
static struct order_page the_page;

static struct {
	bool ends_meanwhile; /* the buffer goes while the registry is asked */
	unsigned int asked, told, kept, freed;
	int status;
	request last;
} played;

static int played_ask(struct ordering *asked, uint32_t roles)
{
	assert_ptr_equal(asked, &the_ordering);
	assert_int_equal(roles, 0);
	played.asked++;
	if (played.ends_meanwhile)
		ordering_end(&the_buffer);
	assert_int_equal(played.freed, 0); /* it is in use */
	if (!played.status)
		the_ordering.connection = the_client.connections;
	return played.status;
}

static void played_tell(struct gpushare_session *to, const request *tell)
{
	assert_ptr_equal(to, &the_session);
	assert_int_equal(played.freed, 0);
	played.told++;
	played.last = *tell;
}

static int played_session_ask(struct gpushare_session *to, const request *ask, pb_size_t body,
			      void *out_body, size_t body_size)
{
	(void)body;
	(void)out_body;
	(void)body_size;
	played_tell(to, ask);
	return GPUSHARE_OK;
}

static bool played_unsettled(const struct ordering *asked)
{
	return asked == &the_ordering;
}

static void played_leave_slot(struct ordering *left, uint32_t next)
{
	atomic_store(&left->slot, next);
}

static bool played_keep(struct ordering *kept)
{
	assert_ptr_equal(kept, &the_ordering);
	played.kept++;
	return false;
}

static void played_free(struct ordering *freed)
{
	assert_ptr_equal(freed, &the_ordering);
	played.freed++;
}

#define ordering_ask played_ask
#define session_tell played_tell
#define session_ask played_session_ask
#define stream_has_unpublished played_unsettled
#define stream_has_unreleased played_unsettled
#define stream_leave_slot played_leave_slot
#define stream_keep played_keep
#define ordering_free played_free
#include "api_order_end.c"

static int set_up(void **state)
{
	(void)state;
	memset(&played, 0, sizeof(played));
	the_client = (struct client){.fd = 3, .connections = 2};
	the_ordering = (struct ordering){.session = &the_session,
					 .users = 1,
					 .pid = getpid(),
					 .generation = 7,
					 .page = &the_page,
					 .roles = ORDER_CONSUMES,
					 .slot = 1,
					 .connection = 1};
	the_ordering.releasing.last = 41;
	the_session = (struct gpushare_session){
	    .client = &the_client, .orderings = &the_ordering, .timeout_ms = 100};
	pthread_mutex_init(&the_session.lock, NULL);
	the_buffer = (struct gpushare_buffer){.session = &the_session, .ordering = &the_ordering};
	return 0;
}

static void told_once_and_kept(void **state)
{
	(void)state;
	session_order_again(&the_session);
	assert_int_equal(played.asked, 1);
	assert_int_equal(played.freed, 0);
	assert_ptr_equal(the_session.orderings, &the_ordering);
	session_order_again(&the_session);
	assert_int_equal(played.asked, 1);
	ordering_end(&the_buffer);
	assert_int_equal(played.told, 1);
	assert_int_equal(played.freed, 1);
}

/* The registry hears how the role ended all the same: else the slot stays this process's. */
static void its_last_buffer_goes_meanwhile(void **state)
{
	const gpushare_Order *leave = &played.last.verb.order;

	(void)state;
	for (int unheard = 0; unheard < 2; unheard++) {
		set_up(NULL);
		played.status = unheard ? GPUSHARE_E_TIMED_OUT : GPUSHARE_OK;
		played.ends_meanwhile = true;
		session_order_again(&the_session);
		assert_int_equal(played.asked, 1);
		assert_int_equal(played.told, 1);
		assert_true(leave->leave && leave->unsettled && leave->generation == 7);
		assert_int_equal(leave->roles, ORDER_CONSUMES);
		assert_int_equal(leave->settles, 42);
		assert_int_equal(played.kept, 1);
		assert_int_equal(played.freed, 1);
		assert_null(the_session.orderings);
		assert_false(the_session.ordering_busy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(told_once_and_kept, set_up),
	    cmocka_unit_test_setup(its_last_buffer_goes_meanwhile, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
