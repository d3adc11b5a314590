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
VERB(publish, 1, 2)
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
VERB(acquire, 3, 3)
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
VERB(release, 2, 3)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = script_number(argument[1]);

	say("release", argument[0],
	    count > 2 ? gpushare_release(buffer, stream_of(argument[2]), number)
		      : gpushare_release_host(buffer, number));
}

/* reclaim=B,NUMBER,S or reclaim=B,NUMBER,MS */
VERB(reclaim, 3, 3)
{
	struct gpushare_buffer *buffer = *buffer_of(argument[0]);
	uint64_t number = script_number(argument[1]);
	bool by_cpu = argument[2][0] >= '0' && argument[2][0] <= '9';

	say("reclaim", argument[0],
	    by_cpu ? gpushare_reclaim_host(buffer, number, (int)script_number(argument[2]))
		   : gpushare_reclaim(buffer, stream_of(argument[2]), number));
}

VERB(join, 1, 1)
{
	uint64_t first = 0;
	int status = gpushare_join(*buffer_of(argument[0]), &first);

	say_number("join", argument[0], status, first);
}

VERB(leave, 1, 1)
{
	say("leave", argument[0], gpushare_leave(*buffer_of(argument[0])));
}

VERB(sequence, 1, 1)
{
	uint64_t number = 0;
	int status = gpushare_sequence(*buffer_of(argument[0]), &number);

	say_number("sequence", argument[0], status, number);
}

VERB(orderstatus, 1, 1)
{
	say("orderstatus", argument[0], gpushare_order_status(*buffer_of(argument[0])));
}

VERB(ordering, 1, 1)
{
	printf("ordering %s: %s\n", argument[0],
	       gpushare_ordering_text(gpushare_ordering(*buffer_of(argument[0]))));
}

#endif
