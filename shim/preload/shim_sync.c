/* SPDX-License-Identifier: MIT */
/* The replaced calls that wait for the GPU. When one succeeds, the named buffers are published. */
#include "shim_hooks.h"
#include "shim_pages.h"
#include "shim_state.h"

/* One call of the program publishes once, whichever other hooks it reaches. */
/* site_guard() follows the wait: the wait itself may be cancelled, as it may without us. */
#define PUBLISH(result) ((result) == CU_OK ? (site_guard(), pages_publish()) : (void)0)
#define RUN(name, real, args) \
	HOOKS_RUN(real, args, !state_publishes(PUBLISH_SYNC), result = (real)args; PUBLISH(result))

#define S(name, params, args) HOOKS_ENTRIES(name, params, args, RUN)
SHIM_SYNC(S)
#undef S
