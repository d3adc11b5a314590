/* SPDX-License-Identifier: MIT */
#include "shim_pages.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "client/client.h"
#include "base/client_held.h"
#include "core/order/client_order.h"
#include "gpushare.h"
#include "base/monotonic.h"
#include "shim_buffers.h"
#include "shim_line.h"
#include "base/shim_lock.h"
#include "shim_process.h"
#include "cuda/shim_quiet.h"
#include "shim_state.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define AGAIN_MS 1000 /* between two checks for a new registry or a missing page */
#define EXIT_LOCK_MS 10

struct page {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	struct order_page *page; /* NULL: the registry has given none */
	uint64_t held;		 /* held_keep() of its fd, for a registry that lost the page */
	unsigned int connection; /* number of the connection that the latest request used */
	int64_t ask_ms;		 /* no request before this; INT64_MAX: none over that connection */
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock; /* never held over a call that may wait */
	struct page *nodes;
	atomic_size_t count;
	atomic_flag asking; /* a thread runs ask_for_all() */
	int64_t look_ms;    /* under the lock: when to check the connection next */
} pages = {.lock = PTHREAD_MUTEX_INITIALIZER, .asking = ATOMIC_FLAG_INIT};

/* Under the lock. */
static struct page *find(uint64_t generation)
{
	struct page *found;

	HASH_FIND(hh, pages.nodes, &generation, sizeof(generation), found);
	return found;
}

/* Under the lock. This doesn't mark the page as gone: the registry does when it learns that the
 * buffer has ended. */
static void drop_page(struct page *node)
{
	order_page_unmap(node->page);
	node->page = NULL;
	held_drop(node->held);
	node->held = 0;
}

/* Under the lock. Never waits: if another part of this process is publishing, this does nothing. */
static void publish(struct page *node)
{
	if (!node->page || order_publish_now(node->page, NULL))
		return;
	if (!atomic_load_explicit(&node->page->means, memory_order_relaxed))
		atomic_store(&node->page->means, GPUSHARE_ORDERING_HOST);
}

static void publish_each(void)
{
	for (struct page *node = pages.nodes; node; node = node->hh.next)
		publish(node);
}

/* Under the lock: find a buffer whose page must be requested over `connection`. If `connection` is
 * 0, no connection stands, and the request would make one. */
static struct page *find_due(int64_t now_ms, unsigned int connection)
{
	struct page *node = pages.nodes;

	for (; node; node = node->hh.next) {
		bool refused = node->ask_ms == INT64_MAX, told = node->connection == connection;

		if (told ? !node->page && node->ask_ms <= now_ms
			 : refused || node->ask_ms <= now_ms)
			break;
	}
	return node;
}

/* A request for the page of a buffer, and the registry's answer. */
struct question {
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	uint64_t has;		 /* the id of the page that this process has; 0: none */
	uint64_t id;		 /* answer: the page's id; a new page has another id */
	unsigned int connection; /* number of the connection used, also if the request failed */
	int fd;			 /* answer: descriptor of a new page; -1: none */
};

/* Under the lock: take in the answer. True: the buffer has a new page. */
static bool install(struct page *node, const struct question *answered)
{
	node->connection = answered->connection;
	node->ask_ms = 0;
	if (node->page && node->page->id != answered->id) {
		order_mark_gone(node->page);
		drop_page(node);
		return false;
	}
	if (node->page || order_page_map(answered->fd, node->generation, &node->page)) {
		node->ask_ms = node->page ? 0 : INT64_MAX;
		return false;
	}
	node->held = held_keep(answered->fd);
	return true;
}

/* `given`: the page that this process has, to give it back to the registry; else -1. */
static int send(struct question *question, int given, char *why, size_t why_size)
{
	gpushare_Order *order = &line_ask(gpushare_Request_order_tag)->verb.order;
	int status;

	memcpy(order->name, question->name, sizeof(order->name));
	order->generation = question->generation;
	order->roles = ORDER_PUBLISHES;
	order->again = question->has;
	line.client->goes = given;
	status = line_call(why, why_size);
	if (!status && line.client->reply.which_body != gpushare_Reply_order_tag) {
		snprintf(why, why_size, "the registry's answer is to another request");
		status = GPUSHARE_E_PROTOCOL;
	}
	question->id = line.client->reply.body.order.id;
	return status;
}

/* Send the request. If the registry has lost the page, give it `given`; -1: it can't be given. */
static int put(struct question *question, int given, int64_t until_ms, char *why, size_t why_size)
{
	int status = line_enter_by(until_ms, why, why_size);

	if (status)
		return status;
	status = send(question, -1, why, why_size);
	if (!status && question->has && !question->id && given >= 0)
		status = send(question, given, why, why_size);
	if (!status)
		question->fd = client_take_fd(line.client);
	question->connection = line.client->connections;
	line_leave();
	return status;
}

static bool is_unheard(int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT;
}

/* Under the lock: set when to ask again. A refusal is final for its connection. NOT_FOUND is not
 * final: a restarted registry may learn of the buffer later. True: the failure is to be logged. */
static bool note_failure(struct page *node, int status, unsigned int connection)
{
	bool again =
	    is_unheard(status) || status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_NO_MEMORY;
	bool news = !node->ask_ms || !again;

	node->ask_ms = again ? monotonic_ms() + AGAIN_MS : INT64_MAX;
	if (!again)
		node->connection = connection;
	return news;
}

/* If the buffer still exists, request its page without holding the lock. False: the registry can't
 * be reached; request no more pages now. */
static bool ask(uint64_t generation, int64_t until_ms, bool publishes)
{
	struct question question = {.generation = generation, .fd = -1};
	_cleanup_close_ int given = -1, got = -1;
	struct page *node;
	unsigned int connection = 0;
	bool news = false;
	char why[512];
	int status;

	if (!lock_take(&pages.lock))
		return false;
	node = find(generation);
	if (node) {
		memcpy(question.name, node->name, sizeof(question.name));
		question.has = node->page ? node->page->id : 0;
		given = node->page ? held_open(node->held) : -1;
		connection = node->connection;
	}
	pthread_mutex_unlock(&pages.lock);
	if (!node)
		return true;
	status = put(&question, given, until_ms, why, sizeof(why));
	/* A new registry didn't know the buffer, and a resync has reported it since: ask again. */
	if (status == GPUSHARE_E_NOT_FOUND && question.connection != connection)
		status = put(&question, given, until_ms, why, sizeof(why));
	got = question.fd;
	if (!lock_take(&pages.lock))
		return false;
	node = find(generation);
	if (node && status)
		news = note_failure(node, status, question.connection);
	else if (node && install(node, &question) && publishes)
		publish(node);
	pthread_mutex_unlock(&pages.lock);
	if (news)
		state_log("\"%s\" is not published: %s", question.name, why);
	return !is_unheard(status);
}

/* Request the missing pages, or all pages if the registry was restarted. One thread does it; for
 * the others this returns at once. */
static void ask_for_all(bool publishes)
{
	int64_t now_ms = monotonic_ms(), until_ms = now_ms + state_timeout_ms();
	uint64_t generation;
	unsigned int connection;

	if (atomic_flag_test_and_set(&pages.asking))
		return;
	do {
		const struct page *due;

		if (!line_standing(&connection) || !lock_take(&pages.lock))
			break;
		due = find_due(now_ms, connection);
		generation = due ? due->generation : 0;
		pthread_mutex_unlock(&pages.lock);
	} while (generation && ask(generation, until_ms, publishes) && monotonic_ms() < until_ms);
	atomic_flag_clear(&pages.asking);
}

static bool is_any(void)
{
	return atomic_load_explicit(&pages.count, memory_order_acquire) && process_is_mine() &&
	       !process_is_ending();
}

void pages_publish(void)
{
	_quiet_ struct quiet quiet = quiet_enter();
	int64_t now_ms;
	bool look;

	if (!is_any() || !lock_take(&pages.lock))
		return;
	publish_each();
	now_ms = monotonic_ms();
	look = now_ms >= pages.look_ms;
	if (look)
		pages.look_ms = now_ms + AGAIN_MS;
	pthread_mutex_unlock(&pages.lock);
	if (look)
		ask_for_all(true);
}

void pages_publish_ended(uint64_t generation)
{
	_quiet_ struct quiet quiet = quiet_enter();
	struct page *node;

	if (!state_publishes(PUBLISH_FREE) || !is_any() || !lock_take(&pages.lock))
		return;
	node = find(generation);
	if (node)
		publish(node);
	pthread_mutex_unlock(&pages.lock);
}

void pages_publish_freed(const struct driver *driver, const struct live *entry)
{
	if (entry->name[0] && state_publishes(PUBLISH_FREE) && is_any() &&
	    buffers_stand_in(driver, entry->context) == CU_OK)
		pages_publish_ended(entry->generation);
}

/* exit() must not wait for the GPU. It waits for another thread's lock for EXIT_LOCK_MS at most. */
static void publish_exiting(void)
{
	_quiet_ struct quiet quiet = quiet_enter();

	if (!is_any() || !lock_take_within(&pages.lock, EXIT_LOCK_MS))
		return;
	publish_each();
	pthread_mutex_unlock(&pages.lock);
}

void pages_add(const char *name, uint64_t generation)
{
	static atomic_flag registered = ATOMIC_FLAG_INIT;
	_quiet_ struct quiet quiet = quiet_enter();
	struct page *made;
	size_t before;

	if (!generation || !state_publishes(PUBLISH_SYNC | PUBLISH_FREE | PUBLISH_EXIT))
		return;
	made = calloc(1, sizeof(*made));
	if (!made || !lock_take(&pages.lock)) {
		free(made);
		return;
	}
	strcpy(made->name, name);
	made->generation = generation;
	before = HASH_COUNT(pages.nodes);
	if (!find(generation))
		HASH_ADD(hh, pages.nodes, generation, sizeof(generation), made);
	if (HASH_COUNT(pages.nodes) == before)
		free(made);
	atomic_store_explicit(&pages.count, HASH_COUNT(pages.nodes), memory_order_release);
	pthread_mutex_unlock(&pages.lock);
	/* publish_exiting() runs before process_is_ending() becomes true: exit() calls handlers in
	 * reverse order, and process_claim() registered its handler earlier. */
	if (state_publishes(PUBLISH_EXIT) && !atomic_flag_test_and_set(&registered))
		atexit(publish_exiting);
	/* Half the usual time limit, because the share just before this may have used its whole
	 * limit. */
	ask(generation, monotonic_ms() + state_timeout_ms() / 2, false);
}

void pages_end(uint64_t generation)
{
	struct page *node;

	if (!atomic_load_explicit(&pages.count, memory_order_acquire) || !lock_take(&pages.lock))
		return;
	node = find(generation);
	if (node) {
		HASH_DEL(pages.nodes, node);
		drop_page(node);
		atomic_fetch_sub_explicit(&pages.count, 1, memory_order_release);
	}
	pthread_mutex_unlock(&pages.lock);
	free(node);
}
