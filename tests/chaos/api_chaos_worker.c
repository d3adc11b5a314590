// SPDX-License-Identifier: MIT
/* A worker that uses gpushare's own API. */
#include "gpushare.h"
#include "worker.h"

static struct gpushare_session *session;
static struct gpushare_buffer *buffer;

static const char *failed(int status)
{
	return status ? gpushare_explain() : NULL;
}

static const char *api_start(void)
{
	return failed(gpushare_open(NULL, &session));
}

static const char *api_call(const struct worker *worker)
{
	struct gpushare_alloc_options options = {.device = -1};

	if (!worker->owns)
		return failed(gpushare_attach(session, worker->name, NULL, &buffer));
#define X(name, value, text) \
	if (!strcmp(worker->kind, text)) \
		options.flags = value;
	GPUSHARE_FLAGS(X)
#undef X
	return failed(gpushare_alloc_with(session, worker->name, worker->size, &options, &buffer));
}

static const char *api_write(const struct worker *worker)
{
	return failed(gpushare_copy_to(buffer, 0, worker->host, worker->size));
}

static const char *api_read(const struct worker *worker)
{
	return failed(gpushare_copy_from(buffer, 0, worker->host, worker->size));
}

/* If the owner does not publish or has been killed, that is no error. */
static const char *api_consume(void)
{
	uint64_t sequence;
	int status = gpushare_acquire_host(buffer, 1, 0, &sequence);

	if (status == GPUSHARE_E_TIMED_OUT || status == GPUSHARE_E_OWNER_GONE)
		return NULL;
	return failed(status ? status : gpushare_release_host(buffer, sequence));
}

static const char *api_turn(const struct worker *worker)
{
	if (!worker->owns)
		return api_consume();
	return failed(atomic_load(&worker->page->copies) % 2 ? gpushare_publish(buffer, NULL, NULL)
							     : gpushare_publish_host(buffer, NULL));
}

static const char *api_end(const struct worker *worker)
{
	const char *trouble =
	    failed(worker->owns ? gpushare_free(buffer) : gpushare_detach(buffer));

	gpushare_close(session);
	return trouble;
}

int main(int argc, char **argv)
{
	static const struct way way = {api_start, api_call, api_write, api_read, api_turn, api_end};

	return argc == 8 ? worker_run(argv, &way) : 2;
}
