/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_EVENT_H
#define GPUSHARE_TESTS_API_EVENT_H
/* Verbs of api_app for named events. S is a stream (api_stream.h). */
#include "api_stream.h"

static struct gpushare_event **event_of(const char *slot)
{
	static struct gpushare_event *events[128];

	return &events[(unsigned char)slot[0] & 127];
}

/* evmake=SLOT,NAME[,FLAGS[,MODE[,GROUP]]]: the mode in octal digits */
VERB(evmake, 2, 5)
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
VERB(evopen, 2, 3)
{
	struct gpushare_event_options options = {0};

	if (count > 2)
		options.wait_ms = (unsigned int)script_number(argument[2]);
	say("evopen", argument[1],
	    gpushare_event_open(session, argument[1], &options, event_of(argument[0])));
}

/* evrecord=SLOT[,S]: without S on the default stream */
VERB(evrecord, 1, 2)
{
	say("evrecord", argument[0],
	    gpushare_event_record(*event_of(argument[0]),
				  count > 1 ? stream_of(argument[1]) : NULL));
}

/* evwait=SLOT[,S] */
VERB(evwait, 1, 2)
{
	say("evwait", argument[0],
	    gpushare_event_wait(*event_of(argument[0]), count > 1 ? stream_of(argument[1]) : NULL));
}

VERB(evquery, 1, 1)
{
	say("evquery", argument[0], gpushare_event_query(*event_of(argument[0])));
}

/* evhost=SLOT,TIMEOUT_MS */
VERB(evhost, 2, 2)
{
	say("evhost", argument[0],
	    gpushare_event_wait_host(*event_of(argument[0]), (int)script_number(argument[1])));
}

VERB(evclose, 1, 1)
{
	say("evclose", argument[0], gpushare_event_close(*event_of(argument[0])));
}

VERB(evsame, 2, 2)
{
	printf("evsame: %s\n", gpushare_event_handle(*event_of(argument[0])) ==
				       gpushare_event_handle(*event_of(argument[1]))
				   ? "yes"
				   : "no");
}

#endif
