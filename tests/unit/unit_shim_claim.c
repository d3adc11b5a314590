/* SPDX-License-Identifier: MIT */
/* Which allocations the rules apply to. */
#include "unit.h"

#include <sys/auxv.h>

#include "preloaded.h"
#include "preload/shim_process.h"
#include "preload/shim_site.h"

static const void *const CALLER = (const void *)preloaded;

static bool opens(struct claim *claim, enum rules_api call, size_t size)
{
	bool opened;

	errno = 77;
	opened = claim_open(claim, call, size, CLAIM_CURRENT_DEVICE, CALLER);
	CHECK(errno == 77);
	return opened;
}

static void describe(void)
{
	struct claim claim;

	setenv("GPUSHARE_SIM_DEVICES", "3", 1);
	preloaded("w:from=unit_shim_claim", NULL);
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 4096));
	CHECK(claim.allocation.size == 4096 && claim.allocation.device == 0);
	CHECK(claim.allocation.driver == RULES_API_cuMemAlloc && !claim.allocation.runtime);
	CHECK(!strcmp(claim.allocation.from, (const char *)getauxval(AT_EXECFN)));
	CHECK(claim.driver->cuMemAlloc_v2 == part_driver()->cuMemAlloc_v2);
	CHECK(claim_open(&claim, RULES_API_cuMemCreate, 1, 2, CALLER) &&
	      claim.allocation.device == 2);
	/* if the runtime's call was seen, its caller and name count */
	site_here = (struct site){.runtime = RULES_API_cudaMalloc, .caller = (const void *)getppid};
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1));
	CHECK(claim.allocation.runtime == RULES_API_cudaMalloc);
	CHECK(!claim_take(&claim, RULES_NAME)); /* the caller is in the C library */
	site_here.caller = CALLER;
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1) && claim_take(&claim, RULES_NAME));
	CHECK(!strcmp(claim.match.name, "w"));
}

static void no_rules(void)
{
	struct claim claim;

	preloaded(NULL, NULL);
	CHECK(!opens(&claim, RULES_API_cuMemAlloc, 1));
}

static void other_sizes(void)
{
	struct claim claim;

	preloaded("a:size=4Ki", "b:size=1Mi-2Mi:api=cuMemCreate");
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 4096) &&
	      opens(&claim, RULES_API_cuMemCreate, MIB));
	CHECK(!opens(&claim, RULES_API_cuMemAlloc, 4095) &&
	      !opens(&claim, RULES_API_cuMemAlloc, MIB));
	/* each kind of rule matches for itself */
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 4096) && !claim_take(&claim, RULES_ATTACH));
	CHECK(claim_take(&claim, RULES_NAME) && !strcmp(claim.match.name, "a"));
	CHECK(opens(&claim, RULES_API_cuMemCreate, MIB) && !claim_take(&claim, RULES_NAME));
	CHECK(claim_take(&claim, RULES_ATTACH) && !strcmp(claim.match.name, "b"));
}

/* Without a context the shim leaves the refusal to the driver. */
static void no_context(void)
{
	const struct driver *driver = preloaded("w", NULL);
	struct claim claim;
	cu_deviceptr pointer = 16;

	CHECK(driver->cuCtxSetCurrent(NULL) == CU_OK);
	CHECK(!opens(&claim, RULES_API_cuMemAlloc, 1));
	CHECK(claim_open(&claim, RULES_API_cuMemCreate, 1, 0, CALLER)); /* needs no context */
	CHECK(preloaded_alloc(&pointer, 100) == CU_INVALID_CONTEXT && pointer == 16);
}

static void a_driver_without(void)
{
	struct claim claim;

	preloaded("w", NULL);
	preloaded_table()->cuCtxGetDevice = NULL;
	CHECK(!opens(&claim, RULES_API_cuMemAlloc, 1));
}

/* A failed allocation returns the match that it took; a successful one has used it up. */
static void spend(void)
{
	struct claim claim, later;

	preloaded("w%i:nth=1-2", "a");
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1) && claim_take(&claim, RULES_NAME));
	CHECK(!strcmp(claim.match.name, "w0"));
	errno = 77;
	claim_return(&claim, RULES_NAME);
	CHECK(errno == 77);
	for (int i = 0; i < 2; i++) {
		CHECK(opens(&claim, RULES_API_cuMemAlloc, 1) && claim_take(&claim, RULES_NAME));
		CHECK(claim.match.name[1] == '0' + i);
	}
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1)); /* of the attach rules */
	CHECK(!claim_take(&claim, RULES_NAME) && claim_take(&claim, RULES_ATTACH));
	CHECK(!opens(&later, RULES_API_cuMemAlloc, 1));
	claim_return(&claim, RULES_ATTACH);
	CHECK(opens(&later, RULES_API_cuMemAlloc, 1));
}

/* In a child of a process that has claimed, allocations pass through. */
static void fork_off(void)
{
	struct claim claim;
	int status;
	pid_t child;

	preloaded("w%i", NULL);
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1) && claim_take(&claim, RULES_NAME));
	child = fork();
	if (!child)
		_exit(opens(&claim, RULES_API_cuMemAlloc, 1) ? 1 : 0);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1));
}

static void at_exit(void)
{
	struct claim claim;

	if (claim_open(&claim, RULES_API_cuMemAlloc, 1, 0, CALLER) || !process_is_ending())
		_exit(3);
}

static void run_to_the_end(void)
{
	struct claim claim;

	preloaded("w%i", NULL);
	atexit(at_exit);
	CHECK(opens(&claim, RULES_API_cuMemAlloc, 1) && claim_take(&claim, RULES_NAME));
	exit(0);
}

STAGE_MAIN(SCENE(describe), SCENE(no_rules), SCENE(other_sizes), SCENE(no_context),
	   SCENE(a_driver_without), SCENE(spend), SCENE(fork_off), SCENE(run_to_the_end))
