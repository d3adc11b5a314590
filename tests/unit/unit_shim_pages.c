/* SPDX-License-Identifier: MIT */
/* The order pages of named buffers, with a registry that the test plays: when the shim asks for
 * a page and when it publishes, also without lock and memory. */
#include "unit.h"

#include "base/client_held.h"
#include "core/order/client_order.h"
#include "preload/shim_buffers.h"
#include "preload/shim_line.h"
#include "preload/shim_link_page.h"
#include "preload/shim_process.h"
#include "preload/shim_state.h"
#include "stuck.h"

static struct {
	unsigned int publishes; /* GPUSHARE_PUBLISH */
	bool ending, forked, turn_on;
	unsigned int connection;  /* the present one */
	int status, status_again; /* the registry's answer; to later questions, 0: the same */
	uint64_t id;		  /* of the page that the registry gives */
	int map_status;
	int publish_status;
	cu_result to_stand_in;
	struct link_page last;
	unsigned int asked, maps, published, gone, kept;
	void (*at_exit)(void);
} played;

static bool played_publishes(enum publish_when when)
{
	return played.publishes & when;
}

static bool played_is_mine(void)
{
	return !played.forked;
}

static bool played_is_ending(void)
{
	return played.ending;
}

static void played_on_exit(void (*call)(void))
{
	played.at_exit = call;
}

static bool played_standing(unsigned int *out_connection)
{
	*out_connection = played.connection;
	return !played.turn_on;
}

static int played_link(const struct link_page *page, int64_t until_ms,
		       struct link_page_answer *out_answer, char *why, size_t why_size)
{
	int status = played.asked++ && played.status_again ? played.status_again : played.status;

	assert_true(until_ms > 0 && why_size > 0);
	assert_false(stuck_lock);
	*why = '\0';
	played.last = *page;
	out_answer->connection = played.connection;
	out_answer->id = played.id;
	return status;
}

static int played_map(int fd, uint64_t generation, struct order_page **out_page)
{
	assert_true(fd == -1 && generation); /* the test has no descriptor to close */
	if (played.map_status)
		return played.map_status;
	*out_page = aligned_alloc(_Alignof(struct order_page), sizeof(**out_page));
	memset(*out_page, 0, sizeof(**out_page));
	(*out_page)->id = played.id;
	played.maps++;
	return GPUSHARE_OK;
}

static void played_unmap(struct order_page *page)
{
	played.maps -= page != NULL;
	free(page);
}

static int played_publish(struct order_page *page, uint64_t *out_sequence)
{
	assert_true(page && !out_sequence);
	played.published += !played.publish_status;
	return played.publish_status;
}

static void played_gone(struct order_page *page)
{
	assert_non_null(page);
	played.gone++;
}

static uint64_t played_keep(int fd)
{
	assert_int_equal(fd, -1);
	return ++played.kept;
}

static cu_result played_stand_in(const struct driver *driver, cu_context context)
{
	assert_true(!driver && !context);
	return played.to_stand_in;
}

#define state_publishes played_publishes
#define process_is_mine played_is_mine
#define process_is_ending played_is_ending
#define process_on_exit played_on_exit
#define line_standing played_standing
#define link_page(...) played_link(__VA_ARGS__)
#define order_page_map played_map
#define order_page_unmap played_unmap
#define order_publish_now played_publish
#define order_mark_gone played_gone
#define held_keep played_keep
#define held_drop(held) ((void)(held))
#define held_open(held) ((void)(held), -1)
#define buffers_stand_in played_stand_in
#include "preload/shim_pages.c"

static const struct live named = {.name = "p", .generation = 7};

static int set_up(void **state)
{
	played = (__typeof__(played)){
	    .publishes = PUBLISH_SYNC | PUBLISH_FREE, .connection = 1, .id = 100};
	stuck_lock = false;
	stuck_after = -1u;
	pages.look_ms = 0;
	setenv("GPUSHARE_TIMEOUT_MS", "200", 1);
	return 0;
}

static int tear_down(void **state)
{
	stuck_lock = false;
	for (uint64_t generation = 1; generation < 10; generation++)
		pages_end(generation);
	assert_int_equal(atomic_load(&pages.count), 0);
	assert_null(pages.nodes);
	assert_int_equal(played.maps, 0);
	return 0;
}

/* Call pages_publish() as if its pause was over. Return how often it asked. */
static unsigned int asked_by_publishing(void)
{
	unsigned int before = played.asked;

	pages.look_ms = 0;
	pages_publish();
	return played.asked - before;
}

static void published_in_its_time(void **state)
{
	pages_publish(); /* there is no page */
	pages_add("p", 7);
	assert_int_equal(played.asked, 1);
	assert_string_equal(played.last.name, "p");
	assert_true(played.last.generation == 7 && !played.last.id && played.last.fd == -1);
	assert_int_equal(played.maps, 1);
	assert_int_equal(played.published, 0);
	pages_publish();
	assert_int_equal(played.published, 1);
	assert_int_equal(atomic_load(&pages.nodes->page->means), GPUSHARE_ORDERING_HOST);
	atomic_store(&pages.nodes->page->means, GPUSHARE_ORDERING_STREAM);
	pages_publish_ended(7);
	pages_publish_ended(8); /* an unknown generation */
	assert_int_equal(played.published, 2);
	assert_int_equal(atomic_load(&pages.nodes->page->means), GPUSHARE_ORDERING_STREAM);
	played.publish_status = GPUSHARE_E_OWNER_GONE;
	pages_publish();
	assert_int_equal(played.published, 2);
	assert_null(played.at_exit);
	assert_int_equal(played.asked, 1); /* the shim doesn't ask the same registry again */
}

static void not_asked_for(void **state)
{
	played.publishes = 0;
	pages_add("p", 7);
	assert_false(played.asked || atomic_load(&pages.count));
	played.publishes = PUBLISH_SYNC;
	pages_add("p", 7);
	pages_publish_ended(7);
	pages_publish_freed(NULL, &named);
	assert_int_equal(played.published, 0);
	assert_null(played.at_exit);
}

static void published_before_it_is_freed(void **state)
{
	struct live nameless = named;

	nameless.name[0] = '\0';
	pages_publish_freed(NULL, &named); /* there is no page */
	pages_add("p", 7);
	pages_publish_freed(NULL, &nameless);
	played.to_stand_in = CU_INVALID_VALUE; /* the free would fail */
	pages_publish_freed(NULL, &named);
	assert_int_equal(played.published, 0);
	played.to_stand_in = CU_OK;
	pages_publish_freed(NULL, &named);
	assert_int_equal(played.published, 1);
}

static void published_at_exit(void **state)
{
	played.publishes = PUBLISH_EXIT;
	pages_add("p", 7);
	assert_non_null(played.at_exit);
	played.at_exit();
	assert_int_equal(played.published, 1);
	/* The lock is another thread's, which exit() does not wait for. */
	pthread_mutex_lock(&pages.lock);
	played.at_exit();
	pthread_mutex_unlock(&pages.lock);
	assert_int_equal(played.published, 1);
	pages_end(7);
	played.at_exit();
	assert_int_equal(played.published, 1);
}

static void a_forked_child_and_who_is_ending_do_nothing(void **state)
{
	pages_add("p", 7);
	played.forked = true;
	assert_int_equal(asked_by_publishing(), 0);
	played.forked = false;
	played.ending = true;
	assert_int_equal(asked_by_publishing(), 0);
	pages_publish_ended(7);
	assert_int_equal(played.published, 0);
}

/* If the answer is lost or the registry lacks the buffer, the shim asks again once a second.
 * After a refusal it doesn't ask again over that connection. */
static void asked_again(void **state)
{
	played.status = GPUSHARE_E_TIMED_OUT;
	pages_add("p", 7);
	assert_int_equal(played.asked, 1);
	assert_int_equal(asked_by_publishing(), 0); /* the last question was just now */
	pages.nodes->ask_ms = 0;
	pages.nodes->connection = 1;
	assert_int_equal(asked_by_publishing(), 1);
	pages.nodes->ask_ms = 0;
	played.status = GPUSHARE_E_DENIED;
	assert_int_equal(asked_by_publishing(), 1);
	assert_int_equal(pages.nodes->ask_ms, INT64_MAX);
	assert_int_equal(asked_by_publishing(), 0);
	played.connection = 2;
	played.status = GPUSHARE_OK;
	assert_int_equal(asked_by_publishing(), 1);
	assert_int_equal(played.maps, 1);
	assert_int_equal(played.published, 1); /* with the page, the missed publication */
	played.turn_on = true;
	played.connection = 3;
	assert_int_equal(asked_by_publishing(), 0); /* another thread uses the line */
	played.turn_on = false;
	atomic_flag_test_and_set(&pages.asking);
	assert_int_equal(asked_by_publishing(), 0); /* another thread asks for all pages */
	atomic_flag_clear(&pages.asking);
}

/* A new registry lacked the buffer until the resync: the shim asks again at once. */
static void asked_twice_at_once(void **state)
{
	played.status = GPUSHARE_E_NOT_FOUND;
	played.status_again = GPUSHARE_E_NO_MEMORY;
	pages_add("p", 7);
	assert_int_equal(played.asked, 2);
	assert_in_range(pages.nodes->ask_ms, 1, INT64_MAX - 1);
}

/* A new registry keeps the page, or gives another one: then the old page is marked as gone. */
static void told_to_the_next_registry(void **state)
{
	pages_add("p", 7);
	played.connection = 2;
	assert_int_equal(asked_by_publishing(), 1);
	assert_int_equal(played.last.id, 100);
	assert_int_equal(played.gone, 0);
	assert_int_equal(played.maps, 1);
	played.connection = 3;
	played.id = 200;
	/* first with the old page, which is gone, then for the present one */
	assert_int_equal(asked_by_publishing(), 2);
	assert_int_equal(played.gone, 1);
	assert_int_equal(played.maps, 1);
	assert_int_equal(pages.nodes->page->id, 200);
}

static void pages_that_cannot_be_mapped(void **state)
{
	played.map_status = GPUSHARE_E_NO_MEMORY;
	pages_add("p", 7);
	assert_null(pages.nodes->page);
	assert_int_equal(pages.nodes->ask_ms, INT64_MAX);
	assert_int_equal(asked_by_publishing(), 0);
	assert_int_equal(played.published, 0);
}

static void without_memory(void **state)
{
	for (unsigned int had = 0; had < 3; had++) {
		stuck_after = had;
		pages_add("p", 7);
		assert_int_equal(atomic_load(&pages.count), 0);
	}
	assert_int_equal(played.asked, 0);
	stuck_after = -1u;
	pages_add("p", 7);
	pages_add("p", 7); /* it has a page already */
	assert_int_equal(HASH_COUNT(pages.nodes), 1);
}

static void without_the_lock(void **state)
{
	stuck_lock = true;
	pages_add("p", 7);
	stuck_lock = false;
	assert_int_equal(atomic_load(&pages.count), 0);
	pages_add("p", 7);
	stuck_lock = true;
	pages_publish();
	pages_publish_ended(7);
	pages_end(7);
	assert_int_equal(played.published, 0);
	assert_int_equal(atomic_load(&pages.count), 1);
}

#define with_pages(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

UNIT_MAIN(with_pages(published_in_its_time), with_pages(not_asked_for),
	  with_pages(published_before_it_is_freed), with_pages(published_at_exit),
	  with_pages(a_forked_child_and_who_is_ending_do_nothing), with_pages(asked_again),
	  with_pages(asked_twice_at_once), with_pages(told_to_the_next_registry),
	  with_pages(pages_that_cannot_be_mapped), with_pages(without_memory),
	  with_pages(without_the_lock))
