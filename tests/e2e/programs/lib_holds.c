// SPDX-License-Identifier: MIT
/*
 * Preloaded into a daemon: measures what threads do between taking a mutex and releasing one. The
 * file $LIB_HOLDS gets the most bytes written by pwrite() there, and the microseconds of CPU time of
 * the longest and of the second longest time. Other load on the machine hardly changes these, but a
 * hypervisor's own work can count as CPU time of whoever runs meanwhile: work that is really that
 * long comes again, so the second longest time tells.
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

static __thread unsigned long written, since_us;
static atomic_ulong most, longest_us, second_us;
static int to = -1;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_lock)(pthread_mutex_t *), (*real_unlock)(pthread_mutex_t *);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("LIB_HOLDS");

	*(void **)&real_pwrite = dlsym(RTLD_NEXT, "pwrite");
	*(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	*(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	to = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
}

ssize_t pwrite(int file, const void *from, size_t size, off_t at)
{
	ssize_t wrote = real_pwrite(file, from, size, at);

	if (wrote > 0)
		written += (unsigned long)wrote;
	return wrote;
}

static unsigned long spent_us(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (unsigned long)spent.tv_sec * 1000000 + (unsigned long)spent.tv_nsec / 1000;
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
	int error = real_lock(lock);

	written = 0;
	since_us = spent_us();
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

static void note(unsigned long us)
{
	bool more = written > atomic_load(&most) || us > atomic_load(&second_us);
	char text[72];

	raise_to(&most, written);
	raise_to(&second_us, raise_to(&longest_us, us));
	if (more)
		real_pwrite(to, text,
			    (size_t)snprintf(text, sizeof(text), "%20lu %20lu %20lu\n",
					     atomic_load(&most), atomic_load(&longest_us),
					     atomic_load(&second_us)),
			    0);
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
	note(spent_us() - since_us);
	written = 0;
	since_us = spent_us();
	return real_unlock(lock);
}
