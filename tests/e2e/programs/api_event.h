/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_EVENT_H
#define GPUSHARE_TESTS_API_EVENT_H
/* Verbs of api_app for named events, and for a stream that waits from hold until letgo. */
#include "api_raw.h"

static struct gpushare_event **event_of(const char *slot)
{
	static struct gpushare_event *events[128];

	return &events[(unsigned char)slot[0] & 127];
}

static cu_stream held_stream; /* in the primary context of device 0, as in do_raw() */
static volatile uint32_t *held_word;

/* hold: create a stream that waits; letgo: let it continue */
static void do_hold(char **argument, int count)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *word = NULL;
	cu_device device;
	cu_context context;

#define CALL(name) cu_##name##_call *name = library ? dlsym(library, #name) : NULL
	CALL(cuInit);
	CALL(cuDeviceGet);
	CALL(cuDevicePrimaryCtxRetain);
	CALL(cuCtxSetCurrent);
	CALL(cuMemHostAlloc);
	CALL(cuStreamCreate);
	CALL(cuStreamWaitValue32_v2);
#undef CALL
	if (!cuInit || !cuDeviceGet || !cuDevicePrimaryCtxRetain || !cuCtxSetCurrent ||
	    !cuMemHostAlloc || !cuStreamCreate || !cuStreamWaitValue32_v2)
		script_stop("no driver, or one without cuStreamWaitValue32_v2");
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context) || cuMemHostAlloc(&word, 4096, CU_HOST_ALLOC_PORTABLE) ||
	    cuStreamCreate(&held_stream, CU_STREAM_NONBLOCKING))
		script_stop("hold: a driver call failed");
	held_word = word;
	*held_word = 0;
	if (cuStreamWaitValue32_v2(held_stream, (uintptr_t)word, 1, CU_WAIT_GEQ))
		script_stop("hold: the stream can't be made to wait");
}

static void do_letgo(char **argument, int count)
{
	*held_word = 1;
}

/* evmake=SLOT,NAME[,FLAGS[,MODE[,GROUP]]]: the mode in octal digits */
static void do_evmake(char **argument, int count)
{
	unsigned int flags = count > 2 ? (unsigned int)script_number(argument[2]) : 0;
	const struct gpushare_share_options options = {
	    .mode = count > 3 ? (uint32_t)strtoul(argument[3], NULL, 8) : 0,
	    .group = count > 4 ? argument[4] : NULL,
	};

	say("evmake", argument[1],
	    gpushare_event_create_with(session, argument[1], -1, flags, &options,
				       event_of(argument[0])));
}

/* evopen=SLOT,NAME[,WAIT_MS] */
static void do_evopen(char **argument, int count)
{
	struct gpushare_event_options options = {0};

	if (count > 2)
		options.wait_ms = (unsigned int)script_number(argument[2]);
	say("evopen", argument[1],
	    gpushare_event_open(session, argument[1], &options, event_of(argument[0])));
}

/* evrecord=SLOT[,held]: on the default stream, or on the stream that hold created */
static void do_evrecord(char **argument, int count)
{
	say("evrecord", argument[0],
	    gpushare_event_record(*event_of(argument[0]), count > 1 ? held_stream : NULL));
}

/* evwait=SLOT[,held] */
static void do_evwait(char **argument, int count)
{
	say("evwait", argument[0],
	    gpushare_event_wait(*event_of(argument[0]), count > 1 ? held_stream : NULL));
}

static void do_evquery(char **argument, int count)
{
	say("evquery", argument[0], gpushare_event_query(*event_of(argument[0])));
}

/* evhost=SLOT,TIMEOUT_MS */
static void do_evhost(char **argument, int count)
{
	say("evhost", argument[0],
	    gpushare_event_wait_host(*event_of(argument[0]), (int)script_number(argument[1])));
}

static void do_evclose(char **argument, int count)
{
	say("evclose", argument[0], gpushare_event_close(*event_of(argument[0])));
}

static void do_evsame(char **argument, int count)
{
	printf("evsame: %s\n", gpushare_event_handle(*event_of(argument[0])) ==
				       gpushare_event_handle(*event_of(argument[1]))
				   ? "yes"
				   : "no");
}

static const struct script_verb event_verbs[] = {
    {"hold", 0, 0, do_hold},
    {"letgo", 0, 0, do_letgo},
    {"evmake", 2, 5, do_evmake},
    {"evopen", 2, 3, do_evopen},
    {"evrecord", 1, 2, do_evrecord},
    {"evwait", 1, 2, do_evwait},
    {"evquery", 1, 1, do_evquery},
    {"evhost", 2, 2, do_evhost},
    {"evclose", 1, 1, do_evclose},
    {"evsame", 2, 2, do_evsame},
    {NULL, 0, 0, NULL},
};

#endif
