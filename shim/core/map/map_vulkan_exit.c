/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's Vulkan driver registers an exit handler when it makes a device. In a forked child this
 * handler tells the parent's threads to stop, through descriptors that the two share, and then
 * crashes. The parent then hangs forever at its own exit (measured, driver 580). Handlers run in
 * the reverse order of registration. So a handler of ours that is registered later ends such a
 * child before Vulkan's handler runs.
 */
#include "map_vulkan.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork_check.h"
#include "base/stay_loaded.h"

/* Like exit() after the last exit handler: closes the stdio streams and ends the process. */
static void end_child(int code, void *unused)
{
	(void)unused;
	if (fork_check_is_mine())
		return;
	fcloseall();
	_exit(code);
}

int vulkan_guard_exit(void)
{
	const char *reason;

	if (!stay_loaded()) { /* an exit handler outlives dlclose(), so its code must stay */
		reason = dlerror();
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"gpushare's library can't be kept loaded, which Vulkan needs (%s)",
				reason ? reason : "no reason given");
	}
	if (on_exit(end_child, NULL))
		return api_fail(GPUSHARE_E_NO_MEMORY,
				"no memory for the exit handler that forked children need");
	return GPUSHARE_OK;
}
