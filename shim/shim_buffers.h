/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_BUFFERS_H
#define GPUSHARE_SHIM_BUFFERS_H
/* What happens around an allocation and a free of the program when rules may concern it. */
#include <stdbool.h>

#include "driver.h"

/* The program has got `pointer`: name it if a rule says so. Never changes what the program sees. */
void buffers_made(const struct driver *driver, cu_deviceptr pointer, size_t size);

/*
 * The program asks for `size` bytes: answer with a named buffer if a rule of GPUSHARE_ATTACH says
 * so. True: the program gets `*out_result`, and on CU_OK `*out_pointer`. False: go on as usual.
 */
bool buffers_attach(const struct driver *driver, size_t size, cu_deviceptr *out_pointer,
		    cu_result *out_result);

/*
 * The program frees `pointer`: withdraw its name, before the address can be handed out again. True:
 * it was an attached buffer, now closed, and `*out_result` is the answer. False: free it really.
 */
bool buffers_gone(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result);

#endif
