// SPDX-License-Identifier: MIT
/*
 * Preloaded into a daemon: measures what threads do between taking a mutex and releasing one. The
 * file $LIB_HOLDS gets the most bytes written by pwrite() there, and the most microseconds of CPU
 * time. Other load on the machine doesn't change these.
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
static atomic_ulong most, most_us;
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

static bool is_more(atomic_ulong *than, unsigned long value)
{
	unsigned long was = atomic_load(than);

	while (value > was) {
		if (atomic_compare_exchange_weak(than, &was, value))
			return true;
	}
	return false;
}

int pthread_mutex_unlock(pthread_mutex_t *lock)
{
	bool bytes = is_more(&most, written), us = is_more(&most_us, spent_us() - since_us);
	char text[48];

	if (bytes || us)
		real_pwrite(to, text,
			    (size_t)snprintf(text, sizeof(text), "%20lu %20lu\n",
					     atomic_load(&most), atomic_load(&most_us)),
			    0);
	written = 0;
	since_us = spent_us();
	return real_unlock(lock);
}
