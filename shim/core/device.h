/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DEVICE_H
#define GPUSHARE_SHIM_DEVICE_H
/*
 * GPUs as this process sees them: UUID and ordinal, retained primary contexts, and a scope that
 * makes a context current and restores the caller's afterwards. Functions that fail return a
 * status, and have set the sentence by api_fail().
 */
#include <pthread.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "gpushare.h"

#define DEVICE_MAX 64
#define DEVICE_UUID_TEXT 41 /* "GPU-", 36 characters and the NUL */

/* The primary contexts that one session keeps; each is retained once. */
struct devices {
	pthread_mutex_t lock;
	cu_context retained[DEVICE_MAX];
};

void device_uuid_text(const unsigned char uuid[GPUSHARE_UUID_SIZE], char out[DEVICE_UUID_TEXT]);
int device_uuid(const struct driver *driver, int ordinal,
		unsigned char out_uuid[GPUSHARE_UUID_SIZE]);
/* Is device `ordinal` the GPU `uuid`? Also false if the driver doesn't tell the device's UUID. */
bool device_is(const struct driver *driver, int ordinal,
	       const unsigned char uuid[GPUSHARE_UUID_SIZE]);
/* Checks that there is a device `wanted`, and sets *out_ordinal to it. If `wanted` is -1: to the
 * current context's device, or to 0 if there is no current context. */
int device_choose(const struct driver *driver, int wanted, int *out_ordinal);
/* Sets *out_ordinal to the device for which memory of GPU `uuid` is to be mapped. That is *wanted,
 * which may be another GPU. If `wanted` is NULL: GPU `uuid` itself if it is visible, else as
 * device_choose() for -1. E_DEVICE if the device is known to have no peer access to GPU `uuid`. */
int device_reach(const struct driver *driver, const unsigned char uuid[GPUSHARE_UUID_SIZE],
		 const int *wanted, int *out_ordinal);
/* Returns the status, and sets the sentence, for this failure: the memory of GPU `uuid` can't be
 * mapped for `ordinal`, because `call` answered `result`. */
int device_unreached(const struct driver *driver, const unsigned char uuid[GPUSHARE_UUID_SIZE],
		     int ordinal, const char *call, cu_result result);

int device_retain(struct devices *devices, const struct driver *driver, int ordinal,
		  cu_context *out_context);
/* Get the context of the memory at `pointer`; if the memory has none, its device's primary context,
 * retained. */
int device_context_of(struct devices *devices, const struct driver *driver, uint64_t pointer,
		      int ordinal, cu_context *out_context);
bool device_retains(struct devices *devices, cu_context context);
/* device_release_all(): release the contexts, except those that device_keep() was called for: these
 * stay retained until the process ends. */
void device_keep(struct devices *devices, cu_context context);
void device_release_all(struct devices *devices, const struct driver *driver);

struct device_scope {
	const struct driver *driver;  /* NULL: nothing was pushed */
	const struct driver *relaxed; /* NULL: the capture mode was not changed */
	cu_capture_mode mode;	      /* the thread's mode before */
};

int device_enter(const struct driver *driver, cu_context context, struct device_scope *scope);
/* device_enter() with this thread's capture mode relaxed: a stream capture neither forbids the
 * calls that follow nor is invalidated by them. Source: cuThreadExchangeStreamCaptureMode. */
int device_enter_relaxed(const struct driver *driver, cu_context context,
			 struct device_scope *scope);
void device_leave(struct device_scope *scope);

#define _device_scope_ __attribute__((cleanup(device_leave)))

#endif
