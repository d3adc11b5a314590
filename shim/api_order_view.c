/* SPDX-License-Identifier: MIT */
/*
 * Order pages where GPUs reach them: mapped once more, registered with the driver, and given back
 * when no stream can come to them any more. Nobody tells when that is: a stream that waits may have
 * been destroyed, and a graph be launched late. So what streams have used is retired, and given back
 * some time later, when all that they were to wait for has come.
 */
#include "api_order_stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETIRED_MANY \
	32 /* so many are given back together: each waits for the GPU, as cuMemFree does */

/* All that have a view, in use and retired. */
static struct {
	pthread_mutex_t lock; /* never held over a CUDA call */
	int pid;	      /* whose these are: a forked child has none */
	struct ordering *first;
	unsigned int retired;
} views = {.lock = PTHREAD_MUTEX_INITIALIZER};

int order_enter(const struct driver *driver, cu_context context, struct order_scope *scope)
{
	scope->mode = CU_CAPTURE_RELAXED;
	if (driver->cuThreadExchangeStreamCaptureMode &&
	    driver->cuThreadExchangeStreamCaptureMode(&scope->mode) == CU_OK)
		scope->driver = driver;
	return device_enter(driver, context, &scope->device);
}

void order_leave(struct order_scope *scope)
{
	device_leave(&scope->device);
	if (scope->driver)
		scope->driver->cuThreadExchangeStreamCaptureMode(&scope->mode);
	scope->driver = NULL;
}

int stream_fail(const struct ordering *ordering, cu_result result, const char *call)
{
	return api_fail_cuda(ordering->driver, result, call, "ordering '%s' failed",
			     ordering->name);
}

/* Said to be so where it is (GPUSHARE_ORDERING=events), to try the other way on any GPU. */
static bool has_words(const struct driver *driver)
{
	const char *wanted = secure_getenv("GPUSHARE_ORDERING");
	cu_device device;
	int has = 0;

	return driver->cuStreamWaitValue64_v2 && driver->cuStreamWriteValue64_v2 &&
	       driver->cuMemHostRegister_v2 && driver->cuMemHostUnregister &&
	       driver->cuMemHostGetDevicePointer_v2 && driver->cuDeviceGetAttribute &&
	       driver->cuLaunchHostFunc && !(wanted && !strcmp(wanted, "events")) &&
	       driver->cuCtxGetDevice(&device) == CU_OK &&
	       driver->cuDeviceGetAttribute(&has, CU_DEVICE_STREAM_WORDS, device) == CU_OK && has;
}

/* In the buffer's context. */
static int view_make(const struct ordering *ordering, struct order_page **out_view,
		     cu_deviceptr *out_at)
{
	const struct driver *driver = ordering->driver;
	struct order_page *view;
	const char *call = "cuMemHostRegister_v2";
	cu_result result;
	int status = order_page_map(ordering->fd, ordering->generation, &view);

	if (status)
		return api_fail(status, "no memory to order '%s'", ordering->name);
	result = driver->cuMemHostRegister_v2(view, ORDER_PAGE_SIZE,
					      CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED);
	if (result == CU_OK) {
		call = "cuMemHostGetDevicePointer_v2";
		result = driver->cuMemHostGetDevicePointer_v2(out_at, view, 0);
		if (result != CU_OK)
			driver->cuMemHostUnregister(view);
	}
	if (result != CU_OK) {
		order_page_unmap(view);
		return stream_fail(ordering, result, call);
	}
	*out_view = view;
	return GPUSHARE_OK;
}

static void view_drop(const struct driver *driver, struct order_page *view)
{
	if (driver->cuMemHostUnregister(view) == CU_OK)
		order_page_unmap(view);
}

void view_add(struct ordering *ordering)
{
	pthread_mutex_lock(&views.lock);
	if (views.pid != getpid()) {
		views.pid = getpid();
		views.first = NULL;
		views.retired = 0;
	}
	ordering->next_view = views.first;
	views.first = ordering;
	pthread_mutex_unlock(&views.lock);
}

/* No lock is held over the driver, so another thread may have come first. */
static int view_open(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	struct order_page *view = NULL, *none = NULL;
	cu_deviceptr at = 0;
	cu_event probe = NULL;
	int status = view_make(ordering, &view, &at);

	if (status)
		return status;
	if (!atomic_compare_exchange_strong(&ordering->view, &none, view)) {
		view_drop(ordering->driver, view);
		while (!atomic_load(&ordering->at))
			sched_yield();
		return GPUSHARE_OK;
	}
	if (ordering->driver->cuEventCreate(&probe, CU_EVENT_NO_TIMING) == CU_OK)
		ordering->probe = probe;
	ordering->context = buffer->context;
	atomic_store(&ordering->means, GPUSHARE_ORDERING_STREAM);
	view_add(ordering);
	atomic_store(&ordering->at, at);
	return GPUSHARE_OK;
}

int stream_ready(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	int status;

	if (atomic_load_explicit(&ordering->at, memory_order_acquire) ||
	    atomic_load_explicit(&ordering->means, memory_order_acquire) ==
		GPUSHARE_ORDERING_EVENTS)
		return GPUSHARE_OK;
	atomic_store(&ordering->driver, buffer->session->driver);
	status = order_enter(ordering->driver, buffer->context, &scope);
	if (status)
		return status;
	if (has_words(ordering->driver))
		return view_open(buffer, ordering);
	return order_event_open(buffer, ordering);
}

bool stream_has_failed(void *user)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	const struct ordering *ordering = user;
	cu_result result;

	if (!atomic_load(&ordering->at) || !ordering->probe || !ordering->driver->cuEventQuery)
		return false;
	if (order_enter(ordering->driver, ordering->context, &scope))
		return true;
	result = ordering->driver->cuEventQuery(ordering->probe);
	return result != CU_OK && result != CU_NOT_READY;
}

bool stream_has_unpublished(const struct ordering *ordering)
{
	const struct order_page *page = ordering->page;

	return atomic_load(&ordering->captured) || atomic_load(&ordering->pending) ||
	       !order_reaches(atomic_load(&page->published),
			      atomic_load(&ordering->publishing.last));
}

bool stream_has_unreleased(const struct ordering *ordering)
{
	uint32_t slot = atomic_load(&ordering->slot);

	return atomic_load(&ordering->captured) || atomic_load(&ordering->pending) ||
	       (slot && !order_reaches(atomic_load(&ordering->page->slot[slot - 1].released),
				       atomic_load(&ordering->releasing.last)));
}

/* Nothing that it has given to streams waits for somebody else. */
static bool is_quiet(const struct ordering *ordering)
{
	uint64_t published = atomic_load(&ordering->page->published);
	uint32_t at = 0;

	return ((published & ORDER_GONE_BIT) || /* which lets all of them through */
		order_reaches(published, atomic_load(&ordering->waited))) &&
	       !order_next_behind(ordering->page, atomic_load(&ordering->reclaimed), &at);
}

/* Under the lock: those that can be given back, as a list; none while any stream waits. */
static struct ordering *take_quiet(const struct gpushare_session *session)
{
	struct ordering *taken = NULL, **at = &views.first;

	for (const struct ordering *each = views.first; each; each = each->next_view)
		if (!is_quiet(each))
			return NULL;
	while (*at) {
		struct ordering *each = *at;

		if (!each->retired || atomic_load(&each->captured) || atomic_load(&each->pending) ||
		    (session && each->session != session)) {
			at = &each->next_view;
			continue;
		}
		*at = each->next_view;
		each->next_view = taken;
		taken = each;
		views.retired--;
	}
	return taken;
}

static void view_close(struct ordering *ordering)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	const struct driver *driver = ordering->driver;

	if (order_enter(driver, ordering->context, &scope) == GPUSHARE_OK) {
		if (ordering->view)
			view_drop(driver, ordering->view);
		order_event_finish(ordering);
		if (ordering->probe)
			driver->cuEventDestroy_v2(ordering->probe);
	}
	ordering_free(ordering);
}

static void sweep(const struct gpushare_session *session, unsigned int many)
{
	struct ordering *taken = NULL;

	if (views.pid != getpid())
		return;
	pthread_mutex_lock(&views.lock);
	if (views.retired >= many)
		taken = take_quiet(session);
	pthread_mutex_unlock(&views.lock);
	while (taken) {
		struct ordering *next = taken->next_view;

		view_close(taken);
		taken = next;
	}
}

bool stream_keep(struct ordering *ordering)
{
	if (!atomic_load(&ordering->means))
		return false;
	pthread_mutex_lock(&views.lock);
	ordering->retired = true;
	views.retired++;
	pthread_mutex_unlock(&views.lock);
	sweep(NULL, RETIRED_MANY);
	return true;
}

/* Their contexts may end with the session. */
void stream_sweep(const struct gpushare_session *session)
{
	sweep(session, 1);
}
