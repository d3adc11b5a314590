// SPDX-License-Identifier: MIT
/* Whom a buffer is for is said again to a registry that has lost it: never to more than it was, by whoever
 * may say so. */
#include "unit.h"

#include <grp.h>

#include "client/rights.h"

#define OWN 1500
#define TEAM 1600
#define STRANGE 1700

/* 0: as wanted, in a child that has that group and TEAM. */
static int named(uid_t uid, uint32_t gid, uint32_t mode, uint32_t wanted_mode, const char *wanted)
{
	const gid_t groups[] = {OWN, TEAM};
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		char group[32] = "before";
		bool is_other =
		    setgroups(2, groups) || setresgid(OWN, OWN, OWN) || setresuid(uid, uid, uid);

		rights_name_group(gid, &mode, group, sizeof(group));
		_exit(is_other ? 2 : mode != wanted_mode || strcmp(group, wanted) != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void who_is_in_a_group_names_it(void **state)
{
	if (geteuid()) {
		printf("skipped: only root can be others\n");
		skip();
	}
	assert_int_equal(named(OWN, OWN, 0660, 0660, ""), 0);
	assert_int_equal(named(OWN, TEAM, 0640, 0640, "1600"), 0);
	assert_int_equal(named(0, STRANGE, 0640, 0640, "1700"), 0); /* root names any */
}

/* Its own would be taken for that group then: what that might, nobody may. */
static void else_no_group_may_anything(void **state)
{
	if (geteuid()) {
		printf("skipped: only root can be others\n");
		skip();
	}
	assert_int_equal(named(OWN, STRANGE, 0664, 0604, ""), 0);
	assert_int_equal(named(OWN, STRANGE, 0600, 0600, ""), 0);
	assert_int_equal(named(0, UINT32_MAX, 0666, 0606, ""), 0);
	/* Mode 0 is the default, and so would be what is left of a group's alone. */
	assert_int_equal(named(OWN, STRANGE, 0060, 0600, ""), 0);
	assert_int_equal(named(OWN, STRANGE, 0, 0, ""), 0);
}

UNIT_MAIN(UNIT(who_is_in_a_group_names_it), UNIT(else_no_group_may_anything))
