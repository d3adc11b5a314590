/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_TURNS_H
#define GPUSHARE_TESTS_API_TURNS_H
/* Verbs of api_app that repeat calls. */
#include "api_keep.h"
#include "script_tally.h"
#include "status.h"

/* Return whether the call succeeded. The tally reports the first failure. */
static bool went_well(struct tally *tally, uint64_t turn, const char *call, int status)
{
	if (status)
		tally_failed(tally, turn, "%s: %s: %s", call, status_name(status),
			     gpushare_explain());
	return !status;
}

static void cycle_attach(struct tally *tally, uint64_t turn, const char *name, uint64_t byte)
{
	struct gpushare_buffer *buffer;
	unsigned char first = 0;

	if (!went_well(tally, turn, "attach", gpushare_attach(session, name, NULL, &buffer)) ||
	    !went_well(tally, turn, "copy_from", gpushare_copy_from(buffer, 0, &first, 1)))
		return;
	if (first == byte)
		went_well(tally, turn, "detach", gpushare_detach(buffer));
	else
		tally_failed(tally, turn, "it begins with %d", first);
}

/* cycle=COUNT,NAME,BYTE: COUNT times, attach, check that the first byte is BYTE, and detach */
VERB(cycle, 3, 3)
{
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		cycle_attach(&tally, i, argument[1], script_number(argument[2]));
	printf("cycle: %d failed\n", tally.failed);
}

/* remake=COUNT,NAME,SIZE,OPTIONS: COUNT times, allocate and free */
VERB(remake, 4, 4)
{
	struct gpushare_alloc_options options = keep_options(argument[3]);
	struct gpushare_buffer *buffer;
	struct tally tally = {0};

	for (uint64_t i = 0; i < script_number(argument[0]); i++)
		if (went_well(&tally, i, "alloc_with",
			      gpushare_alloc_with(session, argument[1], script_number(argument[2]),
						  &options, &buffer)))
			went_well(&tally, i, "free", gpushare_free(buffer));
	printf("remake: %d failed\n", tally.failed);
}

#endif
