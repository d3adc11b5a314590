/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ATTACH_H
#define GPUSHARE_TOOLS_ATTACH_H
/* gpushare-attach: what was asked for, and the ways to do it. */
#include <signal.h>

#include "dtype.h"
#include "shape.h"
#include "tool.h"

/* X(name, text): how bytes are written; the names of element types are formats too: TEXT with them */
#define FORMATS(X) X(RAW, "raw") X(HEX, "hex") X(NPY, "npy") X(TEXT, "text")

enum format {
	FORMAT_NONE, /* raw, or hex on a terminal */
#define X(name, text) FORMAT_##name,
	FORMATS(X)
#undef X
};

struct attach_request {
	char **names; /* for a set: patterns too */
	int name_count;
	const char *name;    /* the first */
	const char *output;  /* NULL: standard output, as a hex view on a terminal; "-": raw */
	const char *into;    /* NULL: dump; "-": standard input */
	const char *in;	     /* a .npy file that goes into the buffer */
	const char *restore; /* a set's directory, or a file */
	const char *diff;
	bool diff_in_set; /* it is a file of a set, which has no links */
	const char *directory;
	uint64_t offset;
	bool has_offset;
	uint64_t length; /* once attached: bytes of the range */
	bool has_length;
	unsigned int wait_ms;
	enum format format;
	enum dtype dtype; /* DTYPE_NONE: as the buffer's tags say */
	struct shape shape;
	bool has_shape;
	uint64_t head; /* elements */
	bool has_head;
	bool stats;
	bool sha256;
	bool rate;
	bool follow;
	uint64_t count;	   /* of --follow: end after so many; 0: no end */
	uint64_t wait_for; /* a sequence; 0: none was given */
	unsigned int timeout_ms;
	bool has_timeout;
	int device;	   /* for what is restored; -1: as gpushare_alloc_with() chooses */
	uint32_t mode;	   /* of what is restored; 0: as it was */
	const char *group; /* the same; NULL: as it was, or with `mode` one's own */
};

#define ATTACH_SEQUENCE_MAX (UINT64_C(1) << 61)

/* A tool_exit, and one more: of --diff, where main() makes it 1 and a failure 2, as cmp does. */
#define ATTACH_DIFFERS 3

/* From words to a request: -1 to go on, else the exit code. */
int attach_parse(int argc, char **argv, struct attach_request *request);
/* The same of a request that was read: what contradicts itself is refused. */
int attach_check(const struct attach_request *request);
/* --complete OPTION, for completions/: the values that it takes, a line each; a tool_exit. */
int attach_complete(const char *option);
/* Names, or a pattern, or a directory to write to. */
bool attach_is_set(const struct attach_request *request);

/* Through CUDA, or where that can't be, without; to read it, or to write it as well. NULL: it was said
 * why. */
struct gpushare_buffer *attach_buffer(struct gpushare_session *session, const char *name,
				      unsigned int wait_ms, bool write);

/* These return a tool_exit (attach_dump: ATTACH_DIFFERS too) and have said what went wrong. */
int attach_dump(const struct attach_request *request, struct gpushare_buffer *buffer);
/* The same of bytes of the range that were copied already. */
int attach_dump_bytes(const struct attach_request *request, struct gpushare_buffer *buffer,
		      const void *bytes);
int attach_follow(const struct attach_request *request, struct gpushare_buffer *buffer);
int attach_set(const struct attach_request *request, struct gpushare_session *session);
int attach_into(const struct attach_request *wanted, struct gpushare_buffer *buffer);
int attach_npy(const struct attach_request *wanted, struct gpushare_buffer *buffer);
int attach_restore(const struct attach_request *request, struct gpushare_session *session);

/* What is in a set's directory, of that what the names ask for. False: said why. */
struct manifest;
bool attach_read_set(const struct attach_request *request, const char *directory,
		     struct manifest *out);
/* --diff of a directory. */
bool attach_is_diff_of_set(const struct attach_request *request);
int attach_diff_set(const struct attach_request *request, struct gpushare_session *session);

/* From here on SIGINT, SIGTERM and SIGHUP only say that they came; a second one ends us. */
void attach_catch_signals(void);
extern volatile sig_atomic_t attach_caught; /* the one that asks to stop; 0: none */
/* End by it, so that whoever waits for us sees it. */
void attach_die(const char *words);

#endif
