/* SPDX-License-Identifier: MIT */
/* A consumer leaves while another thread's question is in progress; the answer must not undo the
 * leave. */
#include "unit.h"

#include "api/api_order.h"
#include "filled.h"

static struct gpushare_buffer *leaves; /* to leave after the next answer; NULL: none */

/* Leaves as another thread would; the asking thread has the turn. */
static int ask_and_leave(struct gpushare_session *session, const request *ask, pb_size_t body,
			 void *out_body, size_t body_size, unsigned int *out_readings, int fd,
			 int *out_fd)
{
	int status =
	    session_ask_passing(session, ask, body, out_body, body_size, out_readings, fd, out_fd);
	struct gpushare_buffer *buffer = leaves;

	leaves = NULL;
	if (buffer)
		FAILS(E_TIMED_OUT, "another thread", gpushare_leave(buffer));
	return status;
}

#define session_ask_passing ask_and_leave
#include "api/api_order_page.c"
#include "raw.h"
#undef session_ask_passing

static void leave_meanwhile(void)
{
	const struct gpushare_open_options options = {.timeout_ms = raw_limit_ms(500)};
	struct gpushare_session *session;
	struct gpushare_buffer *buffer;
	struct ordering *ordering;

	part_driver();
	OK(gpushare_open(&options, &session));
	buffer = part_filled(session, "x", PART_SIZE, 1);
	OK(gpushare_join(buffer, NULL));
	ordering = atomic_load(&buffer->ordering);
	leaves = buffer;
	OK(gpushare_publish_host(buffer, NULL)); /* asks for the publisher role */
	CHECK(!leaves && !atomic_load(&ordering->slot));
	CHECK(atomic_load(&ordering->roles) == ORDER_PUBLISHES);
	FAILS(E_INVALID, "has not joined", gpushare_release_host(buffer, 1));
	OK(gpushare_leave(buffer)); /* tells the registry */
	OK(gpushare_reclaim_host(buffer, 1, 0));
	OK(gpushare_join(buffer, NULL));
	OK(gpushare_publish_host(buffer, NULL));
	FAILS(E_TIMED_OUT, "not released", gpushare_reclaim_host(buffer, 2, 0));
	OK(gpushare_release_host(buffer, 2));
	OK(gpushare_reclaim_host(buffer, 2, 0));
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(leave_meanwhile))
