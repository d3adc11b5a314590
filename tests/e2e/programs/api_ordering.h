/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_ORDERING_H
#define GPUSHARE_TESTS_API_ORDERING_H
/* Verbs of api_app for publications. B is a buffer's slot, S a stream (api_stream.h). They use
 * api_app's slots: include this file after these are defined. */
#include "api_stream.h"

/* Print `what B: NUMBER`, or its status. */
static void say_number(const char *what, const char *slot, int status, uint64_t number)
{
	if (status)
		say(what, slot, status);
	else
		printf("%s %s: %llu\n", what, slot, (unsigned long long)number);
}

/* publish=B[,S]: without S by the CPU */
static void do_publish(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = 4711;
	int status = count > 1 ? gpushare_publish(buffer, stream_of(argument[1]), &number)
			       : gpushare_publish_host(buffer, &number);

	say_number("publish", argument[0], status, number);
	if (status && number != 4711)
		printf("it failed and set its result\n");
}

/* acquire=B,NUMBER,S or acquire=B,NUMBER,MS: by a stream, or by the CPU within MS milliseconds */
static void do_acquire(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = script_number(argument[1]);
	bool by_cpu = argument[2][0] >= '0' && argument[2][0] <= '9';
	int status =
	    by_cpu ? gpushare_acquire_host(buffer, number, (int)script_number(argument[2]), &number)
		   : gpushare_acquire(buffer, stream_of(argument[2]), number);

	if (by_cpu)
		say_number("acquire", argument[0], status, number);
	else
		say("acquire", argument[0], status);
}

/* release=B,NUMBER[,S] */
static void do_release(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = script_number(argument[1]);

	say("release", argument[0],
	    count > 2 ? gpushare_release(buffer, stream_of(argument[2]), number)
		      : gpushare_release_host(buffer, number));
}

/* reclaim=B,NUMBER,S or reclaim=B,NUMBER,MS */
static void do_reclaim(char **argument, int count)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = script_number(argument[1]);
	bool by_cpu = argument[2][0] >= '0' && argument[2][0] <= '9';

	say("reclaim", argument[0],
	    by_cpu ? gpushare_reclaim_host(buffer, number, (int)script_number(argument[2]))
		   : gpushare_reclaim(buffer, stream_of(argument[2]), number));
}

static void do_join(char **argument, int count)
{
	uint64_t first = 0;
	int status = gpushare_join(*buffer_of(argument[0]), &first);

	say_number("join", argument[0], status, first);
}

static void do_leave(char **argument, int count)
{
	say("leave", argument[0], gpushare_leave(*buffer_of(argument[0])));
}

static void do_sequence(char **argument, int count)
{
	uint64_t number = 0;
	int status = gpushare_sequence(*buffer_of(argument[0]), &number);

	say_number("sequence", argument[0], status, number);
}

static void do_orderstatus(char **argument, int count)
{
	say("orderstatus", argument[0], gpushare_order_status(*buffer_of(argument[0])));
}

static void do_ordering(char **argument, int count)
{
	printf("ordering %s: %s\n", argument[0],
	       gpushare_ordering_text(gpushare_ordering(*buffer_of(argument[0]))));
}

static const struct script_verb ordering_verbs[] = {
    {"publish", 1, 2, do_publish},   {"acquire", 3, 3, do_acquire},
    {"release", 2, 3, do_release},   {"reclaim", 3, 3, do_reclaim},
    {"join", 1, 1, do_join},	     {"leave", 1, 1, do_leave},
    {"sequence", 1, 1, do_sequence}, {"orderstatus", 1, 1, do_orderstatus},
    {"ordering", 1, 1, do_ordering}, {NULL, 0, 0, NULL},
};

#endif
