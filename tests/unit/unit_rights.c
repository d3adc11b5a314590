// SPDX-License-Identifier: MIT
/* How a client repeats a buffer's group and mode to a registry that lost them: the result never
 * grants more than before, whoever repeats it. */
#include "unit.h"

#include <grp.h>

#include "client/rights.h"

#define OWN 1500
#define TEAM 1600
#define STRANGE 1700

/* Call rights_name_group() in a child as `uid` with the groups OWN and TEAM. Return 0 if mode
 * and group are as wanted. */
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
	assert_int_equal(named(0, STRANGE, 0640, 0640, "1700"), 0); /* root may name any group */
}

/* Without a group name the registry would take the client's own group, so the group's bits are
 * cleared. */
static void else_no_group_may_anything(void **state)
{
	if (geteuid()) {
		printf("skipped: only root can be others\n");
		skip();
	}
	assert_int_equal(named(OWN, STRANGE, 0664, 0604, ""), 0);
	assert_int_equal(named(OWN, STRANGE, 0600, 0600, ""), 0);
	assert_int_equal(named(0, UINT32_MAX, 0666, 0606, ""), 0);
	/* 0060 without the group's bits would be 0, which means the default mode; so it becomes
	 * 0600. */
	assert_int_equal(named(OWN, STRANGE, 0060, 0600, ""), 0);
	assert_int_equal(named(OWN, STRANGE, 0, 0, ""), 0);
}

UNIT_MAIN(UNIT(who_is_in_a_group_names_it), UNIT(else_no_group_may_anything))
