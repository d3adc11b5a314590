/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_DOCTOR_H
#define GPUSHARE_TOOLS_DOCTOR_H
/* gpushare doctor: a list of checks, each with a verdict and the next step. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/tool.h"

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

/* Add a check. `next`: what to do; NULL: nothing. If there is no memory, doctor_print() reports
 * that. */
void doctor_say(enum verdict verdict, const char *area, const char *next, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define doctor_ok(area, ...) doctor_say(VERDICT_OK, area, NULL, __VA_ARGS__)
#define doctor_warn(area, next, ...) doctor_say(VERDICT_WARN, area, next, __VA_ARGS__)
#define doctor_fail(area, next, ...) doctor_say(VERDICT_FAIL, area, next, __VA_ARGS__)
/* Print all checks to standard output; return a tool_exit. */
int doctor_print(bool json);

#define DOCTOR_GPUS_MAX 16
#define DOCTOR_WORDS_MAX 256 /* as many as the kernel reads of a script's first line */
/* Read a file's first line. Returns false if it can't be read or is empty. */
bool doctor_read_line(const char *path, char out[DOCTOR_WORDS_MAX]);

/* The CUDA driver's answers to a child process (aside.h). */
struct driver_facts {
	bool loaded, old; /* old: the driver lacks a function that gpushare needs */
	/* why the driver isn't loaded, or the missing function's name */
	char words[DOCTOR_WORDS_MAX];
	char path[PATH_MAX];
	int version, init;
	char init_name[64]; /* "CUDA_ERROR_NO_DEVICE" */
	int count;	    /* of GPUs; only the first DOCTOR_GPUS_MAX are examined */
	struct driver_gpu {
		char name[100];
		unsigned char uuid[16];
		uint64_t memory;
		int vmm, descriptors, compute_mode;
	} gpus[DOCTOR_GPUS_MAX];
};

/* Results that later checks use. */
struct doctor_found {
	bool registry; /* a registry runs, or could be started */
	int gpus;
	bool vmm;	     /* all GPUs can export cuMemCreate memory as file descriptors */
	bool alone;	     /* the compute mode of a GPU admits one process at most */
	bool simulated;	     /* the driver is that of tests/sim, without a GPU */
	int mapped;	     /* number of GPUs that are Vulkan devices too */
	char shim[PATH_MAX]; /* path of the preload library; "": none */
	struct driver_facts *driver; /* NULL: the driver did not answer */
};

void doctor_shim(struct doctor_found *found);
void doctor_environment(void);
void doctor_registry(const char *directory, struct doctor_found *found);
void doctor_driver(struct doctor_found *found);
void doctor_vulkan(struct doctor_found *found);
void doctor_works(const struct doctor_found *found);
void doctor_program(const char *program, const struct doctor_found *found);
/* Examine the program at `path` and the libraries that its loader lists. `interpreter` is executed:
 * it must be this system's own loader. */
void doctor_libraries(const char *interpreter, const char *path, const struct doctor_found *found);

#endif
