/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ATTACH_H
#define GPUSHARE_TOOLS_ATTACH_H
/* gpushare-attach: what was asked for, and the two ways to do it. */
#include "tool.h"

struct attach_request {
	const char *name;
	const char *output; /* NULL: standard output, as a hex view on a terminal; "-": raw */
	const char *into;   /* NULL: dump; "-": standard input */
	const char *directory;
	uint64_t offset;
	uint64_t length; /* once attached: bytes of the range */
	bool has_length;
	unsigned int wait_ms;
};

/* Both return a tool_exit and have said what went wrong. */
int attach_dump(const struct attach_request *request, struct gpushare_buffer *buffer);
int attach_into(const struct attach_request *request, struct gpushare_buffer *buffer);

#endif
