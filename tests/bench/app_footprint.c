/* SPDX-License-Identifier: MIT */
/*
 * An unmodified program that uses the driver from several threads, then prints its resident memory
 * in KiB: that of libgpushare_*, and of all other mappings only the anonymous memory. How much of a
 * file the kernel maps around a touched page differs from run to run. The threads still run when
 * the program counts.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "../e2e/programs/app_driver.h"

#define THREADS 4
#define BUFFERS 64
#define SIZE (1UL << 20)

static pthread_barrier_t line, users;

/*
 * Every thread holds all its buffers at once. So if the driver keeps freed memory, it keeps the
 * same amount in each run.
 */
static void use(pthread_barrier_t *everybody)
{
	cu_deviceptr pointers[BUFFERS];

	must(set_current(context), "cuCtxSetCurrent");
	for (int i = 0; i < BUFFERS; i++)
		must(alloc(&pointers[i], SIZE), "cuMemAlloc");
	if (everybody)
		pthread_barrier_wait(everybody);
	for (int i = 0; i < BUFFERS; i++)
		must(release(pointers[i]), "cuMemFree");
}

static void *work(void *user)
{
	use(&users);
	pthread_barrier_wait(&line); /* all threads have used the driver */
	pthread_barrier_wait(&line); /* main() has counted */
	return user;
}

static void print_memory(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	long kib, sum = 0;
	unsigned long from, to;
	char text[4096];
	bool ours = false;

	must(!file, "/proc/self/smaps");
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "%lx-%lx ", &from, &to) == 2)
			ours = strstr(text, "/libgpushare_") != NULL;
		else if (sscanf(text, ours ? "Rss: %ld" : "Anonymous: %ld", &kib) == 1)
			sum += kib;
	}
	fclose(file);
	must(!sum, "fields of smaps");
	printf("%ld\n", sum);
}

int main(void)
{
	pthread_t threads[THREADS];

	start();
	use(NULL);
	pthread_barrier_init(&line, NULL, THREADS + 1);
	pthread_barrier_init(&users, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, work, NULL), "pthread_create");
	pthread_barrier_wait(&line);
	print_memory();
	pthread_barrier_wait(&line);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
