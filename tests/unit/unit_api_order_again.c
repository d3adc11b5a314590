/* SPDX-License-Identifier: MIT */
/* The session repeats its roles to a new registry while another thread ends their last buffer. */
#include "base/fork_check.h"
#include "unit.h"

#include "api/api_order.h"
#include "client/client_internal.h"

static struct gpushare_session the_session;
static struct gpushare_buffer the_buffer;
static struct ordering the_ordering;
static struct order_page the_page;

static struct {
	bool ends_meanwhile; /* the buffer ends during the question */
	/* At which unlock after the first question a new connection appears; 0: never. */
	int comes_behind;
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
	assert_int_equal(played.freed, 0); /* still in use */
	if (!played.status) {
		the_ordering.connection = the_session.seen.connections;
		assert_int_equal(ordering_tell_leave(&the_ordering), GPUSHARE_OK);
	}
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
	played_tell(to, ask);
	return GPUSHARE_OK;
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

/* Plays another thread that reconnects and repeats the roles as soon as the lock is free. */
static void played_unlock(pthread_mutex_t *lock)
{
	bool looks = played.asked == 1 && !the_ordering.held;
	bool comes = looks && played.comes_behind && !--played.comes_behind;

	the_session.seen.connections += comes;
	pthread_mutex_unlock(lock);
	if (comes)
		session_order_again(&the_session);
}

#define ordering_ask played_ask
#define session_tell played_tell
#define session_ask played_session_ask
#define stream_leave_slot played_leave_slot
#define stream_keep played_keep
#define ordering_free played_free
#define pthread_mutex_unlock played_unlock
#include "api/api_order_end.c"
#undef pthread_mutex_unlock

static int set_up(void **state)
{
	memset(&played, 0, sizeof(played));
	memset(&the_page, 0, sizeof(the_page));
	api_waited_ms = 0; /* as at the start of each public call */
	the_ordering = (struct ordering){.session = &the_session,
					 .users = 1,
					 .process = fork_check_number(),
					 .generation = 7,
					 .page = &the_page,
					 .roles = ORDER_CONSUMES,
					 .slot = 1,
					 .connection = 1};
	the_ordering.releasing.last = 41;
	the_session = (struct gpushare_session){.seen = {.connections = 2, .connected = true},
						.orderings = &the_ordering,
						.timeout_ms = 100};
	pthread_mutex_init(&the_session.lock, NULL);
	the_buffer = (struct gpushare_buffer){.session = &the_session, .ordering = &the_ordering};
	return 0;
}

/* The worker has made its last check by then, so the thread that reconnected must ask. */
static void what_comes_behind_the_last_look_is_told(void **state)
{
	played.comes_behind = 2; /* first the answer, then the check for more */
	session_order_again(&the_session);
	assert_int_equal(played.asked, 2);
	assert_int_equal(the_ordering.connection, the_session.seen.connections);
	assert_false(the_session.ordering_busy || the_ordering.held);
}

/* The registry must still be told, or the slot stays reserved for this process. */
static void its_last_buffer_goes_meanwhile(void **state)
{
	static const int answers[] = {GPUSHARE_OK, GPUSHARE_E_TIMED_OUT, GPUSHARE_E_OWNER_GONE};
	const gpushare_Order *leave = &played.last.verb.order;

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		set_up(NULL);
		played.status = answers[i];
		played.ends_meanwhile = true;
		session_order_again(&the_session);
		assert_int_equal(played.asked, 1);
		assert_int_equal(played.told, 1);
		assert_true(leave->leave && leave->generation == 7);
		assert_int_equal(leave->roles, ORDER_CONSUMES);
		assert_int_equal(the_page.slot[0].final, 42);
		assert_int_equal(played.kept, 1);
		assert_int_equal(played.freed, 1);
		assert_false(order_is_gone(&the_page)); /* the page still serves others */
		assert_null(the_session.orderings);
		assert_false(the_session.ordering_busy);
	}
}

UNIT_MAIN(cmocka_unit_test_setup(what_comes_behind_the_last_look_is_told, set_up),
	  cmocka_unit_test_setup(its_last_buffer_goes_meanwhile, set_up))
