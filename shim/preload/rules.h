/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RULES_H
#define GPUSHARE_SHIM_RULES_H
/* Rules of GPUSHARE_NAME and GPUSHARE_ATTACH: parsing, matching and naming. This module uses
 * neither CUDA nor the registry nor the environment. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rules_kind {
	RULES_NAME,   /* wait= and must are refused */
	RULES_ATTACH, /* only selectors, wait=, must and readonly are allowed */
};

#define RULES_GROUP_MAX 63 /* bytes of group= */

/* Only the counters change after parsing. Callers hold a lock, unless a function's comment says
 * that it needs none. */
struct rules;

/* A(name, driver): a call that api= accepts. `driver` is the driver call that this call makes. So
 * api=cuMemAlloc also matches memory from cudaMalloc. The shim sees a runtime call only if the
 * program uses a shared CUDA runtime. With a static runtime it sees only the driver call. */
#define RULES_APIS(A) \
	A(cuMemAlloc, cuMemAlloc) \
	A(cuMemAllocPitch, cuMemAllocPitch) \
	A(cuMemAllocManaged, cuMemAllocManaged) \
	A(cuMemAllocAsync, cuMemAllocAsync) \
	A(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync) \
	A(cuMemCreate, cuMemCreate) \
	A(cudaMalloc, cuMemAlloc) \
	A(cudaMallocPitch, cuMemAllocPitch) \
	A(cudaMalloc3D, cuMemAllocPitch) \
	A(cudaMallocManaged, cuMemAllocManaged) \
	A(cudaMallocAsync, cuMemAllocAsync) \
	A(cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync)

enum rules_api {
	RULES_API_NONE,
#define A(name, driver) RULES_API_##name,
	RULES_APIS(A)
#undef A
};

/* An allocation that is about to be made: the values that selectors test. */
struct rules_allocation {
	uint64_t size;		/* bytes requested by the program */
	int device;		/* CUDA ordinal in this process */
	enum rules_api driver;	/* the driver call */
	enum rules_api runtime; /* the runtime call that makes it; RULES_API_NONE: none seen */
	const char *from;	/* caller's object file; NULL or "": unknown, no from= matches */
};

/* Values of %p and %r. */
struct rules_process {
	int pid;
	const char *rank; /* NULL: none is set; %r is 0 then */
};

/* The name and the options from the rule that matched. */
struct rules_match {
	char name[256];
	unsigned int wait_ms; /* wait= */
	bool must;
	uint32_t flags; /* GPUSHARE_FLAG_KEEP, _READONLY; in RULES_ATTACH: attach read-only */
	uint32_t mode;	/* mode=; 0: none was given */
	char group[RULES_GROUP_MAX + 1]; /* group=; "": none */
	uint32_t ttl_s;			 /* ttl=; 0: none was given */
	bool adopt;
	bool vmm;	/* vmm, or implied by keep, readonly, map, unified */
	bool unified;	/* unified: managed memory in host memory */
	size_t rule;	/* index of the rule, from 0 */
	uint64_t index; /* value of %i */
};

/*
 * Parse all rules of `text`, or none. On failure return NULL and write ONE line for stderr to
 * `error`, without its newline. The line marks the bad part with >>> and <<<:
 *   gpushare: GPUSHARE_NAME: size wants N, N-M or N-, in bytes or with K M G T Ki Mi Gi Ti:
 *   weights:>>>size=ten<<<
 * `variable` is the name to print. Empty text has no rules: return NULL with an empty `error`.
 */
struct rules *rules_parse(enum rules_kind kind, const char *variable, const char *text, char *error,
			  size_t error_size);
struct rules *rules_free(struct rules *rules); /* NULL is allowed; returns NULL */

/*
 * Test the rules from number `first` on, in order, against one allocation. Every rule counts it if
 * all selectors but nth= match. Return true if a rule takes it: the first such rule fills `out`. A
 * rule whose template has no %i takes one allocation and is then spent: a name can be given once.
 * nth= counts, from 1, the allocations that match the rule's other selectors, whether or not
 * another rule takes them. %i counts, from 0, the allocations that this rule takes. A rule takes
 * none if its template expands to more than 255 bytes or to an illegal name.
 */
bool rules_match(struct rules *rules, size_t first, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out);

/*
 * The first step of a match, without a lock. Count the allocation, as rules_match() would, at each
 * rule that can't take it now. Stop at the first rule that may take it, and return its number, to
 * pass to rules_match() under the lock as `first`. RULES_NONE: no rule takes the allocation.
 */
#define RULES_NONE SIZE_MAX
size_t rules_pass(struct rules *rules, const struct rules_allocation *allocation);

/* Undo a match (`rule` and `index` of struct rules_match), so that it uses up no name. The
 * allocation stays counted. The next match gets `index` again, unless the rule has given out a
 * later one meanwhile: then `index` stays unused. */
void rules_return(struct rules *rules, size_t rule, uint64_t index);

/* Undo the counting of an allocation that has failed, whether or not a rule took it. `allocation`
 * must be the one given to rules_pass() and rules_match(). */
void rules_uncount(struct rules *rules, const struct rules_allocation *allocation);

/* Return true if a rule that is not spent may match `allocation`. This tests size= and api= only,
 * not device= and from=. It needs no lock and takes a few nanoseconds. */
bool rules_concern(const struct rules *rules, const struct rules_allocation *allocation);

/* Return true if some rule can still match. Needs no lock. */
bool rules_alive(const struct rules *rules);

/* Return the text of rule number `at`, from 0, if it has matched no allocation, else "". Return
 * NULL if there are fewer rules. `length` is set unless NULL is returned. Needs no lock. */
const char *rules_unmatched(const struct rules *rules, size_t at, size_t *length);

#endif
