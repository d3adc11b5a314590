/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's Vulkan driver has an exit handler once there is a device. In a forked child it tells the
 * parent's threads to stop, by descriptors that the two share, and then crashes; the parent stands for
 * ever at its own exit (measured, driver 580). Handlers run the last registered first, so that one
 * of ours ends such a child before it comes to that.
 */
#include "map_vulkan.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fork_check.h"
#include "base/stay_loaded.h"

/* What exit() does after all handlers: to the streams, by the same code, and no more. */
static void end_child(int code, void *unused)
{
	(void)unused;
	if (fork_check_is_mine())
		return;
	fcloseall();
	_exit(code);
}

int vulkan_guard_exit(struct map_reason *why)
{
	const char *reason;

	if (!stay_loaded()) { /* a handler outlives dlclose(), and so must its code */
		reason = dlerror();
		return map_refuse(
		    why, GPUSHARE_E_NOT_SUPPORTED,
		    "gpushare's library can't be kept loaded, as Vulkan wants it (%s)",
		    reason ? reason : "no reason given");
	}
	if (on_exit(end_child, NULL))
		return map_refuse(why, GPUSHARE_E_NO_MEMORY,
				  "no memory for the exit handler that forked children need");
	return GPUSHARE_OK;
}
