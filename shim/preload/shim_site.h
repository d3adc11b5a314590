/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SITE_H
#define GPUSHARE_SHIM_SITE_H
/* Where in the program this thread's call comes from. */
#include <stdbool.h>

#include "rules.h"

struct site {
	bool inside;		/* a hook of ours is running: hooks called by it pass through */
	bool guarded;		/* site_guard() was called in that hook */
	int cancelling;		/* if guarded: the program's cancellation state */
	enum rules_api runtime; /* runtime call that makes this one; RULES_API_NONE: none */
	const void *caller;	/* of the runtime call */
};

/* Initial-exec TLS is never allocated lazily, so it works in every thread at any time. */
extern __thread struct site site_here __attribute__((tls_model("initial-exec")));

/*
 * Disable cancellation of this thread until the running hook returns. This is for calls that
 * concern a name: a cancelled thread would leave our locks held, a new buffer without its name, or
 * a freed buffer with its name. Calls that concern no name don't use it, because it costs about as
 * much as they do.
 */
void site_guard(void);
void site_unguard(void); /* when the hook returns */

/* The path of the object that holds `caller`; "" if none does. The string is never freed. A few
 * loads if the caller is cached. */
const char *site_path(const void *caller);

/* Is `path` NCCL's? Its internal buffers are never named. */
bool site_is_internal(const char *path);

#endif
