/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_COST_STEPS_H
#define TESTS_GPU_COST_STEPS_H
/*
 * Where the library's own calls spend their time. The program contains the library's objects. Timed
 * calls replace those in the driver's table, and the linker's --wrap replaces the registry
 * client's. For programs of one file.
 */
#include <gpushare.h>
#include <string.h>

#include "api/api_session.h"
#include "client/client_internal.h"
#include "gpu_driver.h"

#define COST_ROUNDS_MAX 1024

/* S(step, its text in a table) */
#define COST_STEPS(S) \
	S(registry, "registry round trips") \
	S(descriptor, "of them by fds.sock, with a descriptor") \
	S(open, "cuIpcOpenMemHandle") \
	S(import, "cuMemImportFromShareableHandle") \
	S(reserve, "cuMemAddressReserve") \
	S(map, "cuMemMap") \
	S(access, "cuMemSetAccess") \
	S(other, "other driver calls (device, context, range)")

enum cost_step {
#define S(step, text) COST_##step,
	COST_STEPS(S)
#undef S
	    COST_COUNT
};

static const char *const cost_texts[COST_COUNT] = {
#define S(step, text) text,
    COST_STEPS(S)
#undef S
};

static double cost_us[COST_COUNT]; /* of one operation */
static struct driver cost_real;	   /* the driver's own calls */

#define COST_TIMED(step, call) \
	double started = clock_us(); \
	int result = call; \
	cost_us[COST_##step] += clock_us() - started; \
	return result

/* W(call, step, parameters, arguments) */
#define COST_CALLS(W) \
	W(cuIpcOpenMemHandle_v2, open, \
	  (cu_deviceptr * pointer, cu_ipc_mem_handle handle, unsigned int flags), \
	  (pointer, handle, flags)) \
	W(cuMemImportFromShareableHandle, import, \
	  (cu_mem_handle * handle, void *shareable, cu_handle_type type), \
	  (handle, shareable, type)) \
	W(cuMemAddressReserve, reserve, \
	  (cu_deviceptr * pointer, size_t size, size_t alignment, cu_deviceptr want, \
	   unsigned long long flags), \
	  (pointer, size, alignment, want, flags)) \
	W(cuMemMap, map, \
	  (cu_deviceptr pointer, size_t size, size_t offset, cu_mem_handle handle, \
	   unsigned long long flags), \
	  (pointer, size, offset, handle, flags)) \
	W(cuMemSetAccess, access, \
	  (cu_deviceptr pointer, size_t size, const cu_mem_access *access, size_t count), \
	  (pointer, size, access, count)) \
	W(cuMemGetAllocationGranularity, other, \
	  (size_t * granularity, const cu_mem_prop *prop, cu_granularity_flags option), \
	  (granularity, prop, option)) \
	W(cuMemGetAddressRange_v2, other, \
	  (cu_deviceptr * base, size_t * size, cu_deviceptr pointer), (base, size, pointer)) \
	W(cuCtxPushCurrent_v2, other, (cu_context context), (context)) \
	W(cuCtxPopCurrent_v2, other, (cu_context * context), (context)) \
	W(cuDeviceGet, other, (cu_device * device, int ordinal), (device, ordinal)) \
	W(cuDeviceGetCount, other, (int *count), (count)) \
	W(cuDeviceGetUuid_v2, other, (cu_uuid * uuid, cu_device device), (uuid, device)) \
	W(cuDeviceCanAccessPeer, other, (int *can, cu_device device, cu_device peer), \
	  (can, device, peer))

#define W(call, step, parameters, arguments) \
	static cu_result cost_##call parameters \
	{ \
		COST_TIMED(step, cost_real.call arguments); \
	}
COST_CALLS(W)
#undef W

int __real_client_call(struct client *client, unsigned int extra_ms);
int __wrap_client_call(struct client *client, unsigned int extra_ms);
int __real_client_exchange_fds(struct client *client, const request *question, int64_t deadline_ms);
int __wrap_client_exchange_fds(struct client *client, const request *question, int64_t deadline_ms);

int __wrap_client_call(struct client *client, unsigned int extra_ms)
{
	COST_TIMED(registry, __real_client_call(client, extra_ms));
}

int __wrap_client_exchange_fds(struct client *client, const request *question, int64_t deadline_ms)
{
	COST_TIMED(descriptor, __real_client_exchange_fds(client, question, deadline_ms));
}

static inline void cost_must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", what, gpushare_explain());
	exit(1);
}

/*
 * Open the driver, make device 0's context current, and time the driver calls that the library
 * makes.
 */
static inline void cost_start(void)
{
	const char *why;
	struct driver *table = (struct driver *)(uintptr_t)driver_open(&why);

	if (!table) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	gpu_start();
	cost_real = *table;
#define W(call, step, parameters, arguments) table->call = cost_##call;
	COST_CALLS(W)
#undef W
}

/*
 * One kind of operation: times of the driver's own calls (bare) and of the library (ours), by
 * round.
 */
struct cost {
	const char *name;
	size_t rounds;
	double bare[COST_ROUNDS_MAX], ours[COST_ROUNDS_MAX], ratio[COST_ROUNDS_MAX];
	double steps[COST_COUNT][COST_ROUNDS_MAX];
};

static inline void cost_add(struct cost *cost, double bare_us, double ours_us)
{
	size_t at = cost->rounds++;

	cost->bare[at] = bare_us;
	cost->ours[at] = ours_us;
	cost->ratio[at] = ours_us / bare_us;
	for (int step = 0; step < COST_COUNT; step++)
		cost->steps[step][at] = cost_us[step];
}

static inline void cost_say(const char *name, const char *what, double *values, size_t count)
{
	double median = clock_median(values, count);

	printf("%s\t%s\t%.3f\t%.3f\t%.3f\n", name, what, median, values[0], values[count - 1]);
}

/*
 * Print lines of NAME, what, median, least, most, in us; then a line for each step that took time.
 */
static inline void cost_report(struct cost *cost)
{
	double left = clock_median(cost->ours, cost->rounds);

	cost_say(cost->name, "bare", cost->bare, cost->rounds);
	cost_say(cost->name, "ours", cost->ours, cost->rounds);
	cost_say(cost->name, "ratio", cost->ratio, cost->rounds);
	for (int step = 0; step < COST_COUNT; step++) {
		double median = clock_median(cost->steps[step], cost->rounds);

		if (step != COST_descriptor) /* already counted in the round trips */
			left -= median;
		if (median > 0)
			cost_say(cost->name, cost_texts[step], cost->steps[step], cost->rounds);
	}
	printf("%s\tthe library itself\t%.3f\t\t\n", cost->name, left);
}

#endif
