/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_CONTEXTS_H
#define TESTS_E2E_DRV_CONTEXTS_H
/* Verbs that create and destroy contexts. The argument v1 selects the call without suffix _v2. */
#include "drv_calls.h"

static cu_context drv_context; /* the primary one */
static cu_context drv_contexts[128];

static cu_context *drv_context_of(const char *letter)
{
	return &drv_contexts[(unsigned char)letter[0] & 127];
}

/* ctxnew=LETTER: create a context; the driver makes it current */
VERB(ctxnew, 1, 1)
{
	gpu_say("ctxnew", argument[0], DRV(cuCtxCreate_v2)(drv_context_of(argument[0]), 0, 0));
}

/* ctxdestroy=LETTER[,v1] */
VERB(ctxdestroy, 1, 2)
{
	cu_context context = *drv_context_of(argument[0]);

	gpu_say("ctxdestroy", argument[0],
		count > 1 ? DRV(cuCtxDestroy)(context) : DRV(cuCtxDestroy_v2)(context));
}

/* ctxset=LETTER, ctxset=primary, ctxset=none */
VERB(ctxset, 1, 1)
{
	cu_context context = argument[0][1] ? NULL : *drv_context_of(argument[0]);

	if (!strcmp(argument[0], "primary"))
		context = drv_context;
	gpu_say("ctxset", argument[0], DRV(cuCtxSetCurrent)(context));
}

/* primary=retain, primary=release[,v1], primary=reset[,v1] */
VERB(primary, 1, 2)
{
	int code;

	if (!strcmp(argument[0], "retain"))
		code = DRV(cuDevicePrimaryCtxRetain)(&drv_context, 0);
	else if (!strcmp(argument[0], "release"))
		code = count > 1 ? DRV(cuDevicePrimaryCtxRelease)(0)
				 : DRV(cuDevicePrimaryCtxRelease_v2)(0);
	else
		code = count > 1 ? DRV(cuDevicePrimaryCtxReset)(0)
				 : DRV(cuDevicePrimaryCtxReset_v2)(0);
	gpu_say("primary", argument[0], code);
}

/* nullout=SIZE: allocate with NULL as the place for the pointer */
VERB(nullout, 1, 1)
{
	gpu_say("nullout", argument[0], DRV(cuMemAlloc_v2)(NULL, script_number(argument[0])));
}

#endif
