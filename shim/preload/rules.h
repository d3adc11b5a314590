/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RULES_H
#define GPUSHARE_SHIM_RULES_H
/* GPUSHARE_NAME and GPUSHARE_ATTACH: parsing, matching, naming. No CUDA, registry or environment. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rules_kind {
	RULES_NAME,   /* wait= and must are refused */
	RULES_ATTACH, /* nothing but selectors, wait=, must and readonly is allowed */
};

#define RULES_GROUP_MAX 63 /* bytes of group= */

struct rules; /* immutable but for the counters, which rules_match() moves; callers lock */

/*
 * A(name, driver): the calls that api= knows. `driver` is the driver call that `name` ends in, so
 * that api=cuMemAlloc takes what cudaMalloc allocated too. A runtime's call is only seen where the
 * program's runtime is shared; of a static one we see the driver call.
 */
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

/* An allocation that is about to happen, as far as the selectors look at it. */
struct rules_allocation {
	uint64_t size;		/* bytes, as the program asked */
	int device;		/* CUDA ordinal in this process */
	enum rules_api driver;	/* the driver call */
	enum rules_api runtime; /* the runtime's call around it; RULES_API_NONE: none was seen */
	const char
	    *from; /* path of the object that called; NULL or "": not known, no from= holds */
};

/* What %p and %r stand for. */
struct rules_process {
	int pid;
	const char *rank; /* NULL: none is set; %r is 0 then */
};

/* How a matching rule wants it done. */
struct rules_match {
	char name[256];
	unsigned int wait_ms; /* wait= */
	bool must;	      /* must */
	uint32_t flags;	      /* keep, readonly: GPUSHARE_FLAG_...; of RULES_ATTACH: attach it so */
	uint32_t mode;	      /* mode=; 0: none was given */
	char group[RULES_GROUP_MAX + 1]; /* group=; "": none */
	uint32_t ttl_s;			 /* ttl=; 0: none was given */
	bool adopt;			 /* adopt */
	bool vmm;			 /* vmm, or what needs it: keep, readonly, map, unified */
	bool unified;			 /* unified: managed memory is the host's */
	size_t rule;			 /* which, from 0, for rules_return() */
	uint64_t index;			 /* what %i was */
};

/*
 * Parse `text`; every rule or none. On failure returns NULL and `error` holds ONE line for stderr,
 * without its newline, the offending part marked with >>> and <<<:
 *   gpushare: GPUSHARE_NAME: size wants N, N-M or N-, in bytes or with K M G Ki Mi Gi: weights:>>>size=ten<<<
 * An option that DESIGN.md's grammar has and this build lacks is refused by name ("not supported").
 * `variable` is the name to print. Empty text is no rules: NULL with an empty `error`.
 */
struct rules *rules_parse(enum rules_kind kind, const char *variable, const char *text, char *error,
			  size_t error_size);
struct rules *rules_free(struct rules *rules); /* NULL is allowed; returns NULL */

/*
 * Ask the rules in order about one allocation; count it wherever its selectors hold. The first
 * rule that takes it fills `out`. A rule without selectors and without %i takes one allocation and
 * is spent; so does every rule whose template has no %i (a name can be given once). nth counts,
 * from 1, the allocations for which the rule's other selectors hold, taken by another rule or not.
 * %i is the rule's own count of matches, from 0. A template that grows over 255 bytes or into an
 * illegal name doesn't match.
 */
bool rules_match(struct rules *rules, const struct rules_allocation *allocation,
		 const struct rules_process *process, struct rules_match *out);

/*
 * Without a lock: count the allocation, as rules_match() would, at each rule that can't want it now, up to the
 * first that may. Returns how many rules that were. All of them: the allocation is done with, and true for
 * rules_passed(). Else ask the others by rules_match_from().
 */
size_t rules_pass(struct rules *rules, const struct rules_allocation *allocation);
bool rules_passed(const struct rules *rules, size_t asked);
bool rules_match_from(struct rules *rules, size_t first, const struct rules_allocation *allocation,
		      const struct rules_process *process, struct rules_match *out);

/*
 * The allocation that `match` was made for has failed: take back what rules_match() counted, so
 * that a failed allocation uses up no name. With the same `allocation`. Where others have matched
 * since, an index may stay unused; none is given twice.
 */
void rules_return(struct rules *rules, const struct rules_allocation *allocation,
		  const struct rules_match *match);

/*
 * Could a rule that is not spent concern an allocation of `size` bytes by these calls? Looks at
 * size= and api= only: no lock needed, a few nanoseconds. `device` and `from` are not looked at.
 */
bool rules_concern(const struct rules *rules, const struct rules_allocation *allocation);

/* True while some rule can still match: when not, the caller may stop asking. */
bool rules_alive(const struct rules *rules);

/* The text of rule number `at`, from 0, if it has matched no allocation; "": it has. NULL: there are fewer rules.
 * `length` is set unless NULL is returned. */
const char *rules_unmatched(const struct rules *rules, size_t at, size_t *length);

#endif
