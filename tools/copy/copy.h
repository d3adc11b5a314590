/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COPY_H
#define GPUSHARE_TOOLS_COPY_H
/* Copies between buffers and files: the request of a command line, and a function for each verb. */
#include <signal.h>

#include "common/tool.h"
#include "data/layout.h"

struct copy_request {
	char **names; /* for save, restore and diff of a set: patterns are allowed */
	int name_count;
	struct query query; /* `query.name` is names[0] */
	/* a file; for save, the directory. "-": standard output, raw; NULL: the same, but as hex if
	 * it is a terminal */
	const char *output;
	const char *input;    /* of put: "-" is standard input; of restore: the file or directory */
	const char *registry; /* its directory; NULL: the default */
	unsigned int wait_ms;
	bool rate;
	struct progress *progress; /* shared by several copies; NULL: the copy has its own */
	/* If save writes the file as part of a set: the file's final path, for messages; else NULL.
	 * In a set, a signal only makes the copy fail, because save first has to remove the set. */
	const char *in_set;
	uint64_t count;	   /* follow ends after this number of publications; 0: no limit */
	uint64_t wait_for; /* number of a publication; 0: none was given */
	unsigned int timeout_ms;
	bool has_timeout;
	/* The following are of restore and pull. */
	int device;    /* -1: gpushare_alloc_with() chooses */
	uint32_t mode; /* 0: the source's */
	/* NULL: the caller's group; but the saved one for restore without a `mode` */
	const char *group;
	bool readonly; /* false: read-only only if the source was */
};

#define COPY_SEQUENCE_MAX (UINT64_C(1) << 61)

/* Attach through CUDA. If CUDA can't be used, report that and attach without it. `write`: attach
 * for writing too. Returns a status; gpushare_explain() says more. */
int copy_attach_quietly(struct gpushare_session *session, const char *name, unsigned int wait_ms,
			bool write, struct gpushare_buffer **out);
/* Like copy_attach_quietly(), but returns NULL after reporting the error. */
struct gpushare_buffer *copy_attach(struct gpushare_session *session, const char *name,
				    unsigned int wait_ms, bool write);

/* These report errors and return a tool_exit. A dump that compares with a file, and
 * copy_diff_set(), may return ANALYSIS_DIFFERS instead. */
int copy_dump(const struct copy_request *request, struct gpushare_buffer *buffer);
/* Like copy_dump(), but reads the range's data from `bytes`, an earlier copy of it. */
int copy_dump_bytes(const struct copy_request *request, struct gpushare_buffer *buffer,
		    const void *bytes);
int copy_follow(const struct copy_request *request, struct gpushare_buffer *buffer);
int copy_put(const struct copy_request *request, struct gpushare_buffer *buffer);
int copy_save(const struct copy_request *request, struct gpushare_session *session);
int copy_restore(const struct copy_request *request, struct gpushare_session *session);
int copy_diff_set(const struct copy_request *request, struct gpushare_session *session);

/* Whether query.diff is a directory, or is missing and was probably meant as a set's directory. */
bool copy_is_diff_of_set(const struct copy_request *request);
struct manifest;
/* Read the manifest in `directory`. *out gets the entries that request->names select. Returns false
 * after reporting the error. */
bool copy_read_set(const struct copy_request *request, const char *directory, struct manifest *out);

/* From now on SIGINT, SIGTERM and SIGHUP only set copy_caught. The second signal of a kind ends the
 * process. Ignored signals stay ignored. */
void copy_catch_signals(void);
/* From now on signals end the process again. If one was caught, it ends the process now. */
void copy_let_signals(void);
extern volatile sig_atomic_t copy_caught; /* number of the caught signal; 0: none */
/* Print `words`, unless they are "", and end the process by the caught signal, so that its parent
 * sees the signal. */
void copy_die(const char *words);

#endif
