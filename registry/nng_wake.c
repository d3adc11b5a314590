/* SPDX-License-Identifier: MIT */
/*
 * How nng 1.5.2 hands a message from thread to thread, by the linker's --wrap: that is most of what an
 * answer takes. It wakes a thread while it holds the lock that the thread wants first: woken, that
 * sleeps again at once, and is woken anew. Here it is woken when the lock has been let go of. Who waits
 * looks at its queue with the lock held, so none sleeps through it; and what is woken so (task queue,
 * reaper, timers, resolver) lasts as long as nng. And of two threads for each CPU, one more is woken for
 * each step of an answer although the one that is awake would come to it: with the two that nng has
 * on one CPU they mostly do. All that they do of ours is done under one lock. A shared libnng is not reached.
 */
#include <stddef.h>

/* nng's own, there in its static archive alone. */
__attribute__((weak)) void __real_nni_cv_wake1(void *condition);
__attribute__((weak)) void __real_nni_mtx_unlock(void *lock);
void __wrap_nni_cv_wake1(void *condition);
void __wrap_nni_mtx_unlock(void *lock);
int __wrap_nni_plat_ncpu(void);

static _Thread_local void *to_wake;

void __wrap_nni_cv_wake1(void *condition)
{
	if (to_wake)
		__real_nni_cv_wake1(to_wake);
	to_wake = condition;
}

void __wrap_nni_mtx_unlock(void *lock)
{
	void *condition = to_wake;

	to_wake = NULL;
	__real_nni_mtx_unlock(lock);
	if (condition)
		__real_nni_cv_wake1(condition);
}

int __wrap_nni_plat_ncpu(void)
{
	return 1;
}
