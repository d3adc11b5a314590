/* SPDX-License-Identifier: MIT */
/* The replaced calls that wait for the GPU: behind one that went well the named buffers are published. */
#include "shim_hooks.h"
#include "shim_pages.h"
#include "shim_state.h"

/* One call of the program publishes once, whatever it meets of ours on its way. */
/* The wait itself may be cancelled, as it may without us. */
#define PUBLISH(result) ((result) == CU_OK ? (site_guard(), pages_publish()) : (void)0)
#define RUN(name, real, args) \
	HOOKS_RUN(real, args, !state_publishes(PUBLISH_SYNC), result = (real)args; PUBLISH(result))

#define S(name, params, args) HOOKS_ENTRIES(name, params, args, RUN)
SHIM_SYNC(S)
#undef S
