/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COPY_OPTIONS_H
#define GPUSHARE_TOOLS_COPY_OPTIONS_H
/* The options of the verbs that copy, and of gpushare-attach. */
#include "copy/copy.h"

struct copy_options {
	struct copy_request request;
	uint32_t given; /* a bit for each option of the table */
};

/* `take` of usage_parse(); `user` is a struct copy_options. */
int copy_option_take(const char *option, const char *value, void *user);
bool copy_option_given(const struct copy_options *options, const char *name);
/* The first option that was given, and that no usage in `usages` (NULL at the end) has; NULL: none. */
const char *copy_option_beyond(const struct copy_options *options, const char *const usages[]);

#endif
