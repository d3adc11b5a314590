/* SPDX-License-Identifier: MIT */
#include "api_self.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* The process's id, in memory that a child finds empty. */
static _Atomic(_Atomic int *) self_mark;

bool self_claim(void)
{
	_Atomic int *mark = atomic_load(&self_mark), *none = NULL;

	if (!mark) {
		mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mark == MAP_FAILED)
			return false;
		if (madvise((void *)mark, sizeof(*mark), MADV_WIPEONFORK) ||
		    !atomic_compare_exchange_strong(&self_mark, &none, mark)) {
			munmap((void *)mark, sizeof(*mark));
			if (!none)
				return false;
			mark = none;
		}
	}
	atomic_store(mark, getpid());
	return true;
}

bool self_is(int pid)
{
	const _Atomic int *mark = atomic_load_explicit(&self_mark, memory_order_acquire);

	if (mark && atomic_load_explicit(mark, memory_order_relaxed) == pid)
		return true;
	return getpid() == pid;
}

/* A program, whose name is empty, stays anyway. */
bool self_stay_loaded(void)
{
	static atomic_bool stays;
	struct link_map *here;
	Dl_info info;

	if (atomic_load_explicit(&stays, memory_order_relaxed))
		return true;
	if (dladdr1((void *)self_stay_loaded, &info, (void **)&here, RTLD_DL_LINKMAP) &&
	    here->l_name[0] && !dlopen(here->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		return false;
	atomic_store(&stays, true);
	return true;
}
