/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DRIVER_H
#define GPUSHARE_SHIM_DRIVER_H
/* The CUDA driver as a table of its real entry points, found at run time past any interposer. */
#include "cuda_abi.h"

struct driver {
#define F(since, version, name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F)
#undef F
};

/* The C library's own definition of one of the loader's functions; NULL if it has none. */
void *driver_libc(const char *symbol);

/* The C library's own dlsym, past every interposed one; NULL only if the program has no dynamic
 * loader. */
void *(*driver_real_dlsym(void))(void *handle, const char *symbol);

/* Look up every entry in `library` (a dlopen handle); a call that the library lacks is NULL. Like
 * dlsym(), it may overwrite a message that waits for dlerror(). */
void driver_fill(struct driver *table, void *library);

/* The first call that `table` lacks, of those that every supported driver (CUDA 11.8 or later) has;
 * NULL: none. */
const char *driver_missing(const struct driver *table);

/* For the API: dlopen("libcuda.so.1") once, cuInit once. Returns NULL, with the sentence in
 * *out_why, if the library is missing, if it lacks a call that we need, or if cuInit failed.
 * Thread-safe. */
const struct driver *driver_open(const char **out_why);

/* The name of `result`, such as "CUDA_ERROR_INVALID_VALUE", as the driver says it; never
 * NULL. */
const char *driver_error_name(const struct driver *driver, cu_result result);

/* A device's attribute; `without` if the driver doesn't tell it. */
int driver_attribute(const struct driver *driver, cu_device device, cu_device_attribute attribute,
		     int without);

#endif
