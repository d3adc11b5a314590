/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_KEEP_H
#define GPUSHARE_TESTS_API_KEEP_H
/* For api_app's verbs: allocation options, and linked nodes in a buffer (nodes.h). */
#include "api_raw.h"
#include "gpushare.h"
#include "nodes.h"

/* Parse any of these, joined by +: the names of GPUSHARE_FLAGS, adopt, ttl:SECONDS, mode:OCTAL,
 * group:NAME, gpu:ORDINAL, strange (a flag that the API doesn't define). */
static struct gpushare_alloc_options keep_options(char *words)
{
	struct gpushare_alloc_options options = {.device = -1};
	char *rest = words;

	for (char *word; (word = strsep(&rest, "+"));) {
#define X(name, value, text) \
	if (!strcmp(word, text)) \
		options.flags |= value;
		GPUSHARE_FLAGS(X)
#undef X
		if (!strcmp(word, "adopt"))
			options.adopt = 1;
		if (!strncmp(word, "ttl:", 4))
			options.ttl_s = (uint32_t)script_number(word + 4);
		if (!strncmp(word, "mode:", 5))
			options.mode = (uint32_t)strtoul(word + 5, NULL, 8);
		if (!strncmp(word, "group:", 6))
			options.group = word + 6;
		if (!strncmp(word, "gpu:", 4))
			options.device = (int)script_number(word + 4);
		if (!strcmp(word, "strange"))
			options.flags |= 64;
	}
	return options;
}

/* The driver's copies by device pointer, as a program without gpushare makes them. */
static cu_cuMemcpyHtoD_v2_call *keep_to;
static cu_cuMemcpyDtoH_v2_call *keep_from;

static int keep_write(uint64_t to, const void *from, size_t size)
{
	return keep_to(to, from, size);
}

static int keep_read(void *to, uint64_t from, size_t size)
{
	return keep_from(to, from, size);
}

static void keep_enter(const struct gpushare_buffer *buffer)
{
	void *library = raw_enter(gpushare_device(buffer));

	keep_to = dlsym(library, "cuMemcpyHtoD_v2");
	keep_from = dlsym(library, "cuMemcpyDtoH_v2");
	if (!keep_to || !keep_from)
		script_stop("a driver call failed");
}

static int keep_link(const struct gpushare_buffer *buffer)
{
	keep_enter(buffer);
	return nodes_link(gpushare_pointer(buffer), keep_write);
}

static long keep_walk(const struct gpushare_buffer *buffer)
{
	keep_enter(buffer);
	return nodes_walk(gpushare_pointer(buffer), keep_read);
}

#endif
