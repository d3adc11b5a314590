/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_FAULT_LEFT_H
#define TESTS_FAULTS_FAULT_LEFT_H
/*
 * What the process still holds when it ends, in the file FAULT_LEFT. One line for each descriptor,
 * whichever code opened it. One line for each heap piece and mapping that the objects under test
 * allocated and no code released.
 */
#include <dirent.h>

#include "fault_site.h"

#define LEFT_MAX 8192

static struct {
	atomic_flag turn;
	size_t count;
	struct {
		uintptr_t address;
		char what;
		uintptr_t asked_at; /* the allocating call's offset in `owner` */
		const char *owner;
	} had[LEFT_MAX];
} left = {.turn = ATOMIC_FLAG_INIT};

static void left_lock(void)
{
	while (atomic_flag_test_and_set(&left.turn))
		syscall(SYS_sched_yield);
}

static void left_add(char what, const void *address, const void *caller)
{
	const struct object *owner = site_ready() ? site_owner(caller) : NULL;

	if (!owner || !address)
		return;
	left_lock();
	if (left.count < LEFT_MAX) {
		left.had[left.count].address = (uintptr_t)address;
		left.had[left.count].what = what;
		left.had[left.count].asked_at = (uintptr_t)caller - owner->base;
		left.had[left.count++].owner = owner->name;
	}
	atomic_flag_clear(&left.turn);
}

/* Any code may release it. Search backwards: mostly the latest allocation is released first. */
static void left_drop(char what, const void *address)
{
	if (!address || !left.count)
		return;
	left_lock();
	for (size_t i = left.count; i-- > 0;) {
		if (left.had[i].address != (uintptr_t)address || left.had[i].what != what)
			continue;
		left.had[i] = left.had[--left.count];
		break;
	}
	atomic_flag_clear(&left.turn);
}

/* Describe a descriptor by its target: numbers differ from run to run. */
static void left_tell_fd(const char *path, const char *number)
{
	char link[300], name[280], line[320];
	ssize_t length;

	snprintf(name, sizeof(name), "/proc/self/fd/%s", number);
	length = readlink(name, link, sizeof(link) - 1);
	if (length <= 0)
		return;
	link[length] = '\0';
	/* this directory; memory that the simulated driver keeps for reuse */
	if (!strncmp(link, "/proc/", 6) || !strncmp(link, "/memfd:gpushare-sim", 19))
		return;
	if (!strncmp(link, "socket:", 7) || !strncmp(link, "pipe:", 5))
		link[strcspn(link, "[")] = '\0';
	length = snprintf(line, sizeof(line), "fd %s\n", link);
	site_append(path, line, (size_t)length);
}

__attribute__((destructor)) static void left_tell(void)
{
	const char *path = getenv("FAULT_LEFT");
	DIR *fds = path ? opendir("/proc/self/fd") : NULL;
	struct dirent *one;
	char line[160];

	while (fds && (one = readdir(fds)))
		if (one->d_name[0] != '.')
			left_tell_fd(path, one->d_name);
	if (fds)
		closedir(fds);
	for (size_t i = 0; path && i < left.count; i++) {
		int length = snprintf(line, sizeof(line), "%s %s+%lx\n",
				      left.had[i].what == 'm' ? "mapping" : "heap",
				      left.had[i].owner, (unsigned long)left.had[i].asked_at);
		site_append(path, line, (size_t)length);
	}
}

#endif
