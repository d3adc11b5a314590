/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SITE_H
#define GPUSHARE_SHIM_SITE_H
/* Where in the program this thread's call comes from. */
#include <stdbool.h>

#include "rules.h"

struct site {
	bool inside;	/* a hook of ours is on its way: what it meets of ours passes through */
	bool guarded;	/* site_guard() was called in it */
	int cancelling; /* then: the cancellation state that the program had */
	enum rules_api runtime; /* the runtime's call around it; RULES_API_NONE: none that we saw */
	const void *caller;	/* of that call */
};

/* Initial-exec: never allocated, so it works in every thread at every time. */
extern __thread struct site site_here __attribute__((tls_model("initial-exec")));

/*
 * This thread is not cancelled until the hook that is on its way returns. For calls that concern a name: a
 * cancelled thread goes on to a place of the program's own, and would leave our locks taken, or a buffer that
 * has no name yet or has it still. Unnamed calls don't pay for it: it costs about as much as they do.
 */
void site_guard(void);
void site_unguard(void); /* the hook returns */

/* The path of the object that holds `caller`, "" if none does; kept for good. A few loads when the
 * place has called before. */
const char *site_path(const void *caller);

/* Is it NCCL that calls? Its buffers are its own business and never named. */
bool site_is_internal(const char *path);

#endif
