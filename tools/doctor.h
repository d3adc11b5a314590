/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DOCTOR_H
#define GPUSHARE_TOOLS_DOCTOR_H
/* gpushare doctor: a list of what was looked at, each with what is to be done about it. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool.h"

/* X(name, text, colour, exit code) */
#define VERDICTS(X) \
	X(OK, "ok", GREEN, TOOL_DONE) \
	X(WARN, "warn", YELLOW, TOOL_DONE) \
	X(FAIL, "fail", RED, TOOL_FAILED)

enum verdict {
#define X(name, text, colour, code) VERDICT_##name,
	VERDICTS(X)
#undef X
};

struct doctor;
struct doctor *doctor_new(void); /* NULL: out of memory */
struct doctor *doctor_free(struct doctor *doctor);
/* `next`: what to do, NULL: nothing. Where there is no memory it is an error of its own at the end. */
void doctor_say(struct doctor *doctor, enum verdict verdict, const char *area, const char *next,
		const char *format, ...) __attribute__((format(printf, 5, 6)));
/* All of it on standard output; returns a tool_exit. */
int doctor_print(const struct doctor *doctor, bool json);

#define DOCTOR_GPUS_MAX 16
#define DOCTOR_WORDS_MAX 256

/* What the driver says of itself, asked in a process aside. */
struct driver_facts {
	bool loaded, old; /* old: a call that we need is missing, `words` says which */
	char words[DOCTOR_WORDS_MAX];
	char path[PATH_MAX];
	int version, init;
	char init_name[64]; /* "CUDA_ERROR_NO_DEVICE" */
	int count;	    /* of GPUs, those after DOCTOR_GPUS_MAX are not looked at */
	struct driver_gpu {
		char name[100];
		unsigned char uuid[16];
		uint64_t memory;
		int vmm, descriptors, compute_mode;
	} gpus[DOCTOR_GPUS_MAX];
};

/* What of it the rest goes by. */
struct doctor_found {
	bool registry; /* one runs, or would start */
	int gpus;
	bool vmm;		     /* all of them can */
	bool alone;		     /* one takes one process at a time */
	bool simulated;		     /* the driver is this tree's own, without a GPU */
	int mapped;		     /* GPUs that Vulkan shows too */
	char shim[PATH_MAX];	     /* "": none */
	struct driver_facts *driver; /* NULL: it did not answer */
};

void doctor_shim(struct doctor *doctor, struct doctor_found *found);
void doctor_environment(struct doctor *doctor);
void doctor_registry(struct doctor *doctor, const char *directory, struct doctor_found *found);
void doctor_driver(struct doctor *doctor, struct doctor_found *found);
void doctor_vulkan(struct doctor *doctor, struct doctor_found *found);
void doctor_works(struct doctor *doctor, const struct doctor_found *found);
void doctor_program(struct doctor *doctor, const char *program, const struct doctor_found *found);
/* doctor_libraries.c: by what its loader lists, of it and of what it needs. `interpreter` is known to
 * be this system's own. */
void doctor_libraries(struct doctor *doctor, const char *interpreter, const char *path,
		      const struct doctor_found *found);

#endif
