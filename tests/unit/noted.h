/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_NOTED_H
#define GPUSHARE_TESTS_UNIT_NOTED_H
/* Replacements for the functions that end a buffer. They note their name and the generation. Only
 * for the test's own file to include. */
#include <stdio.h>
#include <string.h>

#include "preload/shim_live.h"

/* The notes: "close1 keep2 " */
static char done[256];

static void note(const char *what, uint64_t generation)
{
	size_t length = strlen(done);

	snprintf(done + length, sizeof(done) - length, "%s%llu ", what,
		 (unsigned long long)generation);
}

static cu_result noted_close(const struct driver *driver, const struct live *entry)
{
	assert_non_null(driver);
	note("close", entry->generation);
	return CU_OK;
}

static void noted_keep(const struct driver *driver, const struct live *entry, bool waits)
{
	assert_true(driver && !waits);
	note("keep", entry->generation);
}

static inline void noted_pass(const struct driver *driver, const struct live *entry,
			      cu_context current)
{
	assert_true(driver && !entry->name[0] && (!current || current == entry->context));
	note("pass", entry->generation);
}

static void noted_end(const char *name, uint64_t generation)
{
	assert_non_null(name);
	note("withdraw", generation);
}

/* The queue has just stopped listing the entry for resyncs, so its reading must be the current
 * one. */
static void noted_left(const struct live *entry)
{
	assert_int_equal(entry->reading, resync_readings(&live_resync));
	note("detach", entry->generation);
}

#endif
