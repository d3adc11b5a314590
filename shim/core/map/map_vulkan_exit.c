/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's Vulkan driver has an exit handler once there is a device. In a forked child it tells the
 * parent's threads to stop, by descriptors that the two share, and then crashes; the parent stands for
 * ever at its own exit (measured, driver 580). Handlers run the last registered first, so that one
 * of ours ends such a child before it comes to that.
 */
#include "map_vulkan.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lineage.h"

/* What exit() does after all handlers: to the streams, by the same code, and no more. */
static void end_child(int code, void *unused)
{
	(void)unused;
	if (lineage_is_mine())
		return;
	fcloseall();
	_exit(code);
}

/* A handler outlives dlclose(), and so must its code, be it in a plug-in. A program stays anyway. */
static int stay_loaded(struct map_reason *why)
{
	struct link_map *here;
	const char *reason;
	Dl_info info;

	if (!dladdr1((void *)end_child, &info, (void **)&here, RTLD_DL_LINKMAP) ||
	    !here->l_name[0] || dlopen(here->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		return GPUSHARE_OK;
	reason = dlerror();
	return map_refuse(why, GPUSHARE_E_NOT_SUPPORTED,
			  "%s can't be kept loaded, as Vulkan wants it (%s)", here->l_name,
			  reason ? reason : "no reason given");
}

int vulkan_guard_exit(struct map_reason *why)
{
	int status = stay_loaded(why);

	if (!status && on_exit(end_child, NULL))
		status = map_refuse(why, GPUSHARE_E_NO_MEMORY,
				    "no memory for the exit handler that forked children need");
	return status;
}
