// SPDX-License-Identifier: MIT
/*
 * Preloaded into a daemon: measures what its threads do while they hold a mutex. A hold begins when
 * a mutex is taken, and ends when one is released or a wait for a condition begins. The file
 * $LIB_HOLDS gets the CPU time of the longest and of the second longest hold in microseconds. Other
 * load hardly changes CPU times, but a hypervisor's work can count as CPU time of the running
 * thread. Long work of the daemon itself comes again, so tests use the second longest time.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static __thread unsigned long since_us;
static atomic_ulong longest_us, second_us;
static int to = -1;
static int (*real_lock)(pthread_mutex_t *), (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("LIB_HOLDS");

	*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	*(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	*(void **)&real_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
	*(void **)&real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	to = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
}

static unsigned long spent_us(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (unsigned long)spent.tv_sec * 1000000 + (unsigned long)spent.tv_nsec / 1000;
}

static void begin_hold(void)
{
	since_us = spent_us();
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	int error = real_lock(lock);

	begin_hold();
	return error;
}

/* Raise it to the value, if that is more. Returns the lesser of what it was and the value. */
static unsigned long raise_to(atomic_ulong *most_yet, unsigned long value)
{
	unsigned long was = atomic_load(most_yet);

	while (value > was) {
		if (atomic_compare_exchange_weak(most_yet, &was, value))
			return was;
	}
	return value;
}

static void end_hold(void)
{
	unsigned long us = spent_us() - since_us;
	bool more = us > atomic_load(&second_us);
	char text[48];

	raise_to(&second_us, raise_to(&longest_us, us));
	if (more)
		(void)!pwrite(to, text,
			      (size_t)snprintf(text, sizeof(text), "%20lu %20lu\n",
					       atomic_load(&longest_us), atomic_load(&second_us)),
			      0);
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
	end_hold();
	begin_hold();
	return real_unlock(lock);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
	int error;

	end_hold();
	error = real_wait(condition, lock);
	begin_hold();
	return error;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
			   const struct timespec *until)
{
	int error;

	end_hold();
	error = real_timedwait(condition, lock, until);
	begin_hold();
	return error;
}
