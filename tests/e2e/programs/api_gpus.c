// SPDX-License-Identifier: MIT
/* A program of gpushare's API on a machine with several GPUs. See script.h for how it is told. */
#include "cuda/cuda_abi.h"
#include "gpushare.h"
#include "script.h"
#include "status.h"

static struct gpushare_session *session;
static struct gpushare_buffer *last; /* that was made or attached */

static void say(const char *what, int status)
{
	printf("%s: %s\n", what, status_name(status));
	if (status)
		fprintf(stderr, "%s\n", gpushare_explain());
}

/* count: the visible devices */
static void do_count(char **argument, int count)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuInit_call *init = library ? dlsym(library, "cuInit") : NULL;
	cu_cuDeviceGetCount_call *get = library ? dlsym(library, "cuDeviceGetCount") : NULL;
	int devices = 0;

	if (!init || !get || init(0) || get(&devices))
		script_stop("count: a driver call failed");
	printf("%d\n", devices);
}

static void do_open(char **argument, int count)
{
	if (gpushare_open(NULL, &session))
		script_stop(gpushare_explain());
}

/* make=NAME,DEVICE,FLAGS: 2 MiB there */
static void do_make(char **argument, int count)
{
	const struct gpushare_alloc_options options = {
	    .device = (int)script_number(argument[1]),
	    .flags = (uint32_t)script_number(argument[2]),
	};

	say("make", gpushare_alloc_with(session, argument[0], 2 << 20, &options, &last));
}

/* attach=NAME[,DEVICE]: for that device */
static void do_attach(char **argument, int count)
{
	const struct gpushare_attach_options options = {
	    .on_device = count > 1,
	    .device = count > 1 ? (int)script_number(argument[1]) : 0,
	};
	int status = gpushare_attach(session, argument[0], &options, &last);

	say("attach", status);
	if (!status)
		printf("for device %d\n", gpushare_device(last));
}

/* put=OFFSET,BYTE and byte=OFFSET: of the last */
static void do_put(char **argument, int count)
{
	unsigned char byte = (unsigned char)script_number(argument[1]);

	say("put", gpushare_copy_to(last, script_number(argument[0]), &byte, 1));
}

static void do_byte(char **argument, int count)
{
	unsigned char byte = 0;
	int status = gpushare_copy_from(last, script_number(argument[0]), &byte, 1);

	if (status)
		say("byte", status);
	else
		printf("byte: %d\n", byte);
}

static void do_detach(char **argument, int count)
{
	say("detach", gpushare_detach(last));
}

static const struct script_verb verbs[] = {
    {"count", 0, 0, do_count},	 {"open", 0, 0, do_open}, {"make", 3, 3, do_make},
    {"attach", 1, 2, do_attach}, {"put", 2, 2, do_put},	  {"byte", 1, 1, do_byte},
    {"detach", 0, 0, do_detach}, {NULL, 0, 0, NULL},
};

int main(int argc, char **argv)
{
	return script_run(verbs, argv + 1);
}
