/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_status.h"

#define DEVICE_VISIBLE_TEXT (4 * (DEVICE_UUID_TEXT + 2))

void device_uuid_text(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[DEVICE_UUID_TEXT])
{
	char *to = out + sprintf(out, "GPU-");

	for (int i = 0; i < GPUSHARE_UUID_SIZE; i++)
		to +=
		    sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

int device_uuid(const struct driver *driver, int ordinal,
		unsigned char out_uuid[GPUSHARE_UUID_SIZE])
{
	const char *call = "cuDeviceGet";
	cu_device device;
	cu_uuid uuid;
	cu_result result = driver->cuDeviceGet(&device, ordinal);

	if (result == CU_OK) {
		call = "cuDeviceGetUuid_v2";
		result = driver->cuDeviceGetUuid_v2(&uuid, device);
	}
	if (result != CU_OK)
		return api_fail_cuda(driver, result, call, "device %d gave no UUID", ordinal);
	memcpy(out_uuid, uuid.bytes, GPUSHARE_UUID_SIZE);
	return GPUSHARE_OK;
}

bool device_is(const struct driver *driver, int ordinal,
	       const unsigned char uuid[GPUSHARE_UUID_SIZE])
{
	unsigned char seen[GPUSHARE_UUID_SIZE];

	return !device_uuid(driver, ordinal, seen) && !memcmp(seen, uuid, GPUSHARE_UUID_SIZE);
}

static int device_count(const struct driver *driver, int *out_count)
{
	int count = 0;
	cu_result result = driver->cuDeviceGetCount(&count);

	if (result != CU_OK && result != CU_NO_DEVICE)
		return api_fail_cuda(driver, result, "cuDeviceGetCount",
				     "the GPUs can't be counted");
	*out_count = count < DEVICE_MAX ? count : DEVICE_MAX;
	return GPUSHARE_OK;
}

/* Sets *out_ordinal to the ordinal of GPU `uuid` in this process. If that GPU is not visible, sets
 * *out_ordinal to -1 and lists the visible GPUs' UUIDs in `out_visible`. */
static int device_seek(const struct driver *driver, const unsigned char uuid[GPUSHARE_UUID_SIZE],
		       int *out_ordinal, char out_visible[DEVICE_VISIBLE_TEXT])
{
	size_t used = 0;
	int count;
	int status = device_count(driver, &count);

	*out_ordinal = -1;
	*out_visible = '\0';
	for (int ordinal = 0; !status && ordinal < count; ordinal++) {
		unsigned char seen[GPUSHARE_UUID_SIZE];

		status = device_uuid(driver, ordinal, seen);
		if (!status && !memcmp(seen, uuid, GPUSHARE_UUID_SIZE)) {
			*out_ordinal = ordinal;
			return GPUSHARE_OK;
		}
		if (!status && used + DEVICE_UUID_TEXT + 2 <= DEVICE_VISIBLE_TEXT) {
			used += (size_t)sprintf(out_visible + used, "%s", used ? ", " : "");
			device_uuid_text(seen, out_visible + used);
			used += strlen(out_visible + used);
		}
	}
	return status;
}

int device_choose(const struct driver *driver, int wanted, int *out_ordinal)
{
	cu_context current = NULL;
	cu_device device = 0;
	int count;
	int status = device_count(driver, &count);

	if (status)
		return status;
	if (!count)
		return api_fail(GPUSHARE_E_NO_DRIVER, "the CUDA driver sees no GPU");
	if (wanted < -1 || wanted >= count)
		return api_fail(
		    GPUSHARE_E_INVALID,
		    "there is no device %d: this process sees %d GPU%s, numbered from 0", wanted,
		    count, count == 1 ? "" : "s");
	if (wanted == -1 && driver->cuCtxGetCurrent(&current) == CU_OK && current &&
	    driver->cuCtxGetDevice(&device) == CU_OK)
		wanted = device;
	*out_ordinal = wanted < 0 ? 0 : wanted;
	return GPUSHARE_OK;
}

static bool device_can_peer(const struct driver *driver, int from, int to)
{
	cu_device device, peer;
	int can = 0;

	return driver->cuDeviceGet(&device, from) == CU_OK &&
	       driver->cuDeviceGet(&peer, to) == CU_OK &&
	       driver->cuDeviceCanAccessPeer(&can, device, peer) == CU_OK && can;
}

int device_reach(const struct driver *driver, const unsigned char uuid[GPUSHARE_UUID_SIZE],
		 const int *wanted, int *out_ordinal)
{
	char visible[DEVICE_VISIBLE_TEXT];
	int home, chosen;
	int status = device_seek(driver, uuid, &home, visible);

	if (!status && home >= 0 && !wanted) {
		*out_ordinal = home;
		return GPUSHARE_OK;
	}
	if (!status)
		status = device_choose(driver, wanted ? *wanted : -1, &chosen);
	if (status)
		return status;
	if (home >= 0 && home != chosen && !device_can_peer(driver, chosen, home))
		return api_fail(GPUSHARE_E_DEVICE,
				"the buffer is on device %d of this process, and device %d can't "
				"reach that memory: the two have no peer access; attach it for "
				"device %d",
				home, chosen, home);
	*out_ordinal = chosen;
	return GPUSHARE_OK;
}

int device_unreached(const struct driver *driver, const unsigned char uuid[GPUSHARE_UUID_SIZE],
		     int ordinal, const char *call, cu_result result)
{
	const char *variable = getenv("CUDA_VISIBLE_DEVICES");
	char text[DEVICE_UUID_TEXT], visible[DEVICE_VISIBLE_TEXT];
	int home;

	device_uuid_text(uuid, text);
	if (device_seek(driver, uuid, &home, visible) || home >= 0)
		return api_fail_cuda(driver, result, call,
				     "the buffer on %s can't be reached from device %d", text,
				     ordinal);
	return api_fail(GPUSHARE_E_DEVICE,
			"the buffer is on %s, which this process does not see; it sees %s%s%s%s, "
			"and device %d can't reach it (%s answered %s); add that GPU to "
			"CUDA_VISIBLE_DEVICES",
			text, *visible ? visible : "no GPU",
			variable ? " (CUDA_VISIBLE_DEVICES=" : "", variable ? variable : "",
			variable ? ")" : "", ordinal, call, driver_error_name(driver, result));
}

int device_retain(struct devices *devices, const struct driver *driver, int ordinal,
		  cu_context *out_context)
{
	cu_context made = NULL, extra = NULL;
	cu_device device;
	cu_result result;

	if (ordinal < 0 || ordinal >= DEVICE_MAX)
		return api_fail(GPUSHARE_E_LIMIT, "device %d is past the %d that are supported",
				ordinal, DEVICE_MAX);
	pthread_mutex_lock(&devices->lock);
	made = devices->retained[ordinal];
	pthread_mutex_unlock(&devices->lock);
	if (made) {
		*out_context = made;
		return GPUSHARE_OK;
	}

	result = driver->cuDeviceGet(&device, ordinal);
	if (result == CU_OK)
		result = driver->cuDevicePrimaryCtxRetain(&made, device);
	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuDevicePrimaryCtxRetain",
				     "device %d can't be used", ordinal);
	/* No lock is held during driver calls, so another thread may have retained the context
	 * first. */
	pthread_mutex_lock(&devices->lock);
	extra = devices->retained[ordinal];
	if (!extra)
		devices->retained[ordinal] = made;
	pthread_mutex_unlock(&devices->lock);
	if (extra)
		driver->cuDevicePrimaryCtxRelease_v2(device);
	*out_context = made;
	return GPUSHARE_OK;
}

int device_context_of(struct devices *devices, const struct driver *driver, uint64_t pointer,
		      int ordinal, cu_context *out_context)
{
	if (driver->cuPointerGetAttribute(out_context, CU_ATTRIBUTE_CONTEXT, pointer) == CU_OK &&
	    *out_context)
		return GPUSHARE_OK;
	return device_retain(devices, driver, ordinal, out_context);
}

bool device_retains(struct devices *devices, cu_context context)
{
	bool found = false;

	pthread_mutex_lock(&devices->lock);
	for (int ordinal = 0; !found && ordinal < DEVICE_MAX; ordinal++)
		found = devices->retained[ordinal] == context;
	pthread_mutex_unlock(&devices->lock);
	return found;
}

void device_keep(struct devices *devices, cu_context context)
{
	pthread_mutex_lock(&devices->lock);
	for (int ordinal = 0; ordinal < DEVICE_MAX; ordinal++)
		if (devices->retained[ordinal] == context)
			devices->retained[ordinal] = NULL;
	pthread_mutex_unlock(&devices->lock);
}

void device_release_all(struct devices *devices, const struct driver *driver)
{
	cu_device device;

	for (int ordinal = 0; ordinal < DEVICE_MAX; ordinal++) {
		if (!devices->retained[ordinal])
			continue;
		if (driver->cuDeviceGet(&device, ordinal) == CU_OK)
			driver->cuDevicePrimaryCtxRelease_v2(device);
		devices->retained[ordinal] = NULL;
	}
}

int device_enter(const struct driver *driver, cu_context context, struct device_scope *scope)
{
	cu_result result = driver->cuCtxPushCurrent_v2(context);

	if (result != CU_OK)
		return api_fail_cuda(driver, result, "cuCtxPushCurrent_v2",
				     "the buffer's CUDA context can't be made current");
	scope->driver = driver;
	return GPUSHARE_OK;
}

int device_enter_relaxed(const struct driver *driver, cu_context context,
			 struct device_scope *scope)
{
	scope->mode = CU_CAPTURE_RELAXED;
	if (driver->cuThreadExchangeStreamCaptureMode(&scope->mode) == CU_OK)
		scope->relaxed = driver;
	return device_enter(driver, context, scope);
}

void device_leave(struct device_scope *scope)
{
	cu_context left;

	if (scope->driver)
		scope->driver->cuCtxPopCurrent_v2(&left);
	if (scope->relaxed)
		scope->relaxed->cuThreadExchangeStreamCaptureMode(&scope->mode);
	scope->driver = scope->relaxed = NULL;
}
