/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COPY_H
#define GPUSHARE_TOOLS_COPY_H
/* Copies between buffers and files: what a command line asks for, and a function for each verb. */
#include <signal.h>

#include "common/tool.h"
#include "data/layout.h"

struct copy_request {
	char **names; /* for save, restore and diff of a set: patterns are allowed */
	int name_count;
	struct query query;   /* `query.name` is names[0] */
	const char *output;   /* NULL: standard output, as a hex view on a terminal; "-": raw */
	const char *input;    /* of put: "-" is standard input; of restore: the file or directory */
	const char *registry; /* its directory; NULL: the default */
	unsigned int wait_ms;
	bool rate;
	struct progress *progress; /* of several copies together; NULL: each has its own */
	/* The path of a file of save, which removes the set before a signal ends the process. */
	const char *in_set;
	uint64_t count;	   /* follow ends after so many publications; 0: never */
	uint64_t wait_for; /* number of a publication; 0: none was given */
	unsigned int timeout_ms;
	bool has_timeout;
	int device;	   /* of restore; -1: gpushare_alloc_with() chooses */
	uint32_t mode;	   /* of restore; 0: as saved */
	const char *group; /* of restore; NULL: as saved, or with `mode` the caller's */
};

#define COPY_SEQUENCE_MAX (UINT64_C(1) << 61)

/* Attach through CUDA, or without it where CUDA can't be used. `write`: for writing too. Return
 * NULL after reporting the error. */
struct gpushare_buffer *copy_attach(struct gpushare_session *session, const char *name,
				    unsigned int wait_ms, bool write);

/* These report errors and return a tool_exit. A dump that compares with a file, and
 * copy_diff_set(), may return ANALYSIS_DIFFERS instead. */
int copy_dump(const struct copy_request *request, struct gpushare_buffer *buffer);
/* copy_dump() for a range whose bytes were copied before. */
int copy_dump_bytes(const struct copy_request *request, struct gpushare_buffer *buffer,
		    const void *bytes);
int copy_follow(const struct copy_request *request, struct gpushare_buffer *buffer);
int copy_put(const struct copy_request *request, struct gpushare_buffer *buffer);
int copy_save(const struct copy_request *request, struct gpushare_session *session);
int copy_restore(const struct copy_request *request, struct gpushare_session *session);
int copy_diff_set(const struct copy_request *request, struct gpushare_session *session);

/* Whether query.diff is the directory of a saved set, or looks as if it was meant to be one. */
bool copy_is_diff_of_set(const struct copy_request *request);
/* Read the manifest in `directory`; *out gets the entries that the names select. Return false after
 * reporting the error. */
struct manifest;
bool copy_read_set(const struct copy_request *request, const char *directory, struct manifest *out);

/* From now on SIGINT, SIGTERM and SIGHUP only set copy_caught. The second signal of a kind ends the
 * process. Ignored signals stay ignored. */
void copy_catch_signals(void);
extern volatile sig_atomic_t copy_caught; /* number of the caught signal; 0: none */
/* End by that signal, so that the parent process sees it. Print `words` first; "": nothing. */
void copy_die(const char *words);

#endif
