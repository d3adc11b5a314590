/* SPDX-License-Identifier: MIT */
#include "stay_loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

static atomic_bool stays;

/* The program itself, whose l_name is empty, is never unloaded. */
bool stay_loaded(void)
{
	struct link_map *here;
	Dl_info info;

	if (atomic_load_explicit(&stays, memory_order_relaxed))
		return true;
	if (dladdr1((void *)stay_loaded, &info, (void **)&here, RTLD_DL_LINKMAP) &&
	    here->l_name[0] && !dlopen(here->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		return false;
	atomic_store(&stays, true);
	return true;
}
