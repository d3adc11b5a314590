/* SPDX-License-Identifier: MIT */
/* The rights that a mode grants, and the groups of a process. */
#include "unit.h"

#include "os/process.h"
#include "state/session.h"

#define OWNER 41001
#define TEAM 500

/* Each row: a mode, and the bits that it grants to the owner, to a group member and to others. */
static void the_first_that_fits_decides(void **state)
{
	static const struct {
		uint32_t mode;
		unsigned int bits[3];
	} is[] = {
	    {0600, {6, 0, 0}}, {0400, {4, 0, 0}}, {0640, {6, 4, 0}}, {0660, {6, 6, 0}},
	    {0644, {6, 4, 4}}, {0666, {6, 6, 6}}, {0604, {6, 0, 4}}, {0066, {0, 6, 6}},
	    {0620, {6, 2, 0}}, {0006, {0, 0, 6}},
	};
	uint32_t team = TEAM;
	const struct identity who[] = {
	    {.uid = OWNER, .gid = OWNER, .groups = &team, .count = 1},
	    {.uid = OWNER + 1, .gid = OWNER + 1, .groups = &team, .count = 1},
	    {.uid = OWNER + 2, .gid = OWNER + 2},
	};
	const struct identity root = {.uid = 0};

	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		for (int j = 0; j < 3; j++) {
			unsigned int rights = access_grants(OWNER, TEAM, is[i].mode, &who[j]);
			unsigned int bits = is[i].bits[j];

			assert_int_equal(!!(rights & ACCESS_READ), bits >> 2);
			assert_int_equal(!!(rights & ACCESS_WRITE), bits >> 1 & 1);
			assert_int_equal(!!(rights & ACCESS_SEE), bits || j == 0);
			assert_int_equal(!!(rights & ACCESS_OWN), j == 0);
		}
		assert_int_equal(access_grants(OWNER, TEAM, is[i].mode, &root),
				 ACCESS_SEE | ACCESS_READ | ACCESS_WRITE | ACCESS_OWN);
	}
}

static void groups_are_those_of_the_process(void **state)
{
	struct process self;
	struct identity who;
	gid_t groups[256];
	int count = getgroups(256, groups);

	process_read(getpid(), geteuid(), &self);
	identity_read(&who, &self, getegid());
	assert_true(identity_is_in(&who, getegid()));
	assert_false(identity_is_in(&who, IDENTITY_NO_GROUP));
	assert_false(identity_is_in(&who, 4000000));
	assert_int_equal(who.count, count);
	for (int i = 0; i < count; i++)
		assert_true(identity_is_in(&who, groups[i]));
	identity_finish(&who);
	/* The pid was reused if the start time, user or group differs: then no groups are read. */
	self.started++;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
	self.started--;
	self.uid++;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
	self.uid--;
	identity_read(&who, &self, getegid() + 1);
	assert_int_equal(who.count, 0);
	self.pid = 0;
	identity_read(&who, &self, getegid());
	assert_int_equal(who.count, 0);
}

UNIT_MAIN(UNIT(the_first_that_fits_decides), UNIT(groups_are_those_of_the_process))
