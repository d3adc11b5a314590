/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ATTACH_H
#define GPUSHARE_TOOLS_ATTACH_H
/* gpushare-attach: the parsed command line, and a function for each operation. */
#include <signal.h>

#include "common/tool.h"
#include "data/layout.h"

struct attach_request {
	char **names; /* NAME...; for a set, glob patterns are allowed */
	int name_count;
	struct query query;  /* `query.name` is names[0] */
	const char *output;  /* NULL: standard output, as a hex view on a terminal; "-": raw */
	const char *into;    /* NULL: dump; "-": standard input */
	const char *in;	     /* a .npy file to copy into the buffer */
	const char *restore; /* directory of a saved set, or one file */
	const char *directory;
	unsigned int wait_ms;
	bool rate;
	bool follow;
	uint64_t count;	   /* --follow ends after so many publications; 0: never */
	uint64_t wait_for; /* number of a publication; 0: none was given */
	unsigned int timeout_ms;
	bool has_timeout;
	int device;	   /* of --restore; -1: gpushare_alloc_with() chooses */
	uint32_t mode;	   /* of --restore; 0: as saved */
	const char *group; /* of --restore; NULL: as saved, or with `mode` the caller's */
};

#define ATTACH_SEQUENCE_MAX (UINT64_C(1) << 61)

/* Parse the command line into `request`. Return -1 to go on, else the exit code. */
int attach_parse(int argc, char **argv, struct attach_request *request);
/* Refuse options that contradict each other. Return -1 to go on, else the exit code. */
int attach_check(const struct attach_request *request);
/* --complete OPTION, for completions/: print the option's values, one per line; a tool_exit. */
int attach_complete(const char *option);
/* Return true for several names, a pattern, or an output directory. */
bool attach_is_set(const struct attach_request *request);

/* Attach through CUDA, or without it where CUDA can't be used. `write`: for writing too. Return
 * NULL after reporting the error. */
struct gpushare_buffer *attach_buffer(struct gpushare_session *session, const char *name,
				      unsigned int wait_ms, bool write);

/* These report errors and return a tool_exit. Dumps with --diff may return ANALYSIS_DIFFERS
 * instead. */
int attach_dump(const struct attach_request *request, struct gpushare_buffer *buffer);
/* attach_dump() for a range whose bytes were copied before. */
int attach_dump_bytes(const struct attach_request *request, struct gpushare_buffer *buffer,
		      const void *bytes);
int attach_follow(const struct attach_request *request, struct gpushare_buffer *buffer);
int attach_set(const struct attach_request *request, struct gpushare_session *session);
int attach_into(const struct attach_request *wanted, struct gpushare_buffer *buffer);
int attach_npy(const struct attach_request *wanted, struct gpushare_buffer *buffer);
int attach_restore(const struct attach_request *request, struct gpushare_session *session);

/* Read the manifest in `directory`; *out gets the entries that the names select. Return false after
 * reporting the error. */
struct manifest;
bool attach_read_set(const struct attach_request *request, const char *directory,
		     struct manifest *out);
/* --diff with the directory of a saved set. */
bool attach_is_diff_of_set(const struct attach_request *request);
int attach_diff_set(const struct attach_request *request, struct gpushare_session *session);

/* From now on SIGINT, SIGTERM and SIGHUP only set attach_caught. The second signal of a kind ends
 * the process. Ignored signals stay ignored. */
void attach_catch_signals(void);
extern volatile sig_atomic_t attach_caught; /* number of the caught signal; 0: none */
/* End by that signal, so that the parent process sees it. Print `words` first; "": nothing. */
void attach_die(const char *words);

#endif
