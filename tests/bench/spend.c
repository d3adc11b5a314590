// SPDX-License-Identifier: MIT
/*
 * Something to look at for a sampling profiler: `spend MS`, through the API on whichever driver there
 * is. It prints the process ids of its two sides and waits for a line; then one shares and frees
 * names, the other attaches and detaches them, a batch of each in turns, for MS milliseconds of each.
 * A line for each batch: VERB BEGAN ENDED COUNT, CLOCK_MONOTONIC in s.
 */
#include <gpushare.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gpu_driver.h"

#define BATCH 100 /* names at once */
#define SIZE (2 << 20)

static struct gpushare_session *session;
static struct gpushare_buffer *buffers[BATCH];
static cu_deviceptr memory[BATCH];

static void must(int status, const char *what)
{
	if (!status)
		return;
	fprintf(stderr, "spend: %s: %s\n", what, gpushare_explain());
	exit(1);
}

static const char *name(int i)
{
	static char text[32];

	snprintf(text, sizeof(text), "spent/%03d", i);
	return text;
}

static void do_share(int i)
{
	must(gpushare_share(session, name(i), memory[i], SIZE, &buffers[i]), "share");
}

static void do_attach(int i)
{
	must(gpushare_attach(session, name(i), NULL, &buffers[i]), "attach");
}

static void do_detach(int i)
{
	must(gpushare_detach(buffers[i]), "detach");
}

static void do_free(int i)
{
	must(gpushare_free(buffers[i]), "free");
}

/* In the order in which they are done; the first and the last by the owner. */
static const struct {
	const char *name;
	void (*one)(int i);
} verbs[] = {{"share", do_share}, {"attach", do_attach}, {"detach", do_detach}, {"free", do_free}};

/* How long it took. */
static double batch(int verb)
{
	double began = clock_us(), ended;

	for (int i = 0; i < BATCH; i++)
		verbs[verb].one(i);
	ended = clock_us();
	printf("%s\t%.6f\t%.6f\t%d\n", verbs[verb].name, began / 1e6, ended / 1e6, BATCH);
	fflush(stdout);
	return ended - began;
}

static void start(void)
{
	gpu_start();
	must(gpushare_open(NULL, &session), "open");
}

/* Told by a byte to do the one or the other, it answers by the byte. */
static void own(int orders, int done)
{
	char verb;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start();
	for (int i = 0; i < BATCH; i++)
		gpu_must(gpu.cuMemAlloc_v2(&memory[i], SIZE), "cuMemAlloc");
	while (read(orders, &verb, 1) == 1) {
		batch(verb);
		gpu_must(write(done, &verb, 1) != 1, "write");
	}
	_exit(0);
}

static void tell(int orders, int done, char verb)
{
	gpu_must(write(orders, &verb, 1) != 1 || read(done, &verb, 1) != 1, "the owner");
}

int main(int argc, char **argv)
{
	double wanted_us = argc == 2 ? atof(argv[1]) * 1e3 : 0, spent_us = 0;
	int orders[2], done[2];
	pid_t owner;

	if (wanted_us <= 0) {
		fprintf(stderr, "usage: spend MS\n");
		return 2;
	}
	gpu_must(pipe(orders) || pipe(done), "pipe");
	owner = fork();
	if (!owner) {
		close(orders[1]);
		own(orders[0], done[1]);
	}
	start();
	printf("%d %d\n", (int)getpid(), (int)owner);
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	while (spent_us < wanted_us) {
		tell(orders[1], done[0], 0);
		spent_us += batch(1);
		batch(2);
		tell(orders[1], done[0], 3);
	}
	must(gpushare_close(session), "close");
	return 0;
}
