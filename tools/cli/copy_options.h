/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COPY_OPTIONS_H
#define GPUSHARE_TOOLS_COPY_OPTIONS_H
/* The options of the verbs that copy, into a struct copy_request. */
#include "copy/copy.h"
#include "usage.h"

extern const struct usage_option copy_options[];
/* The same for gpushare-attach, whose --format also takes an element's type. */
extern const struct usage_option copy_attach_options[];

#endif
