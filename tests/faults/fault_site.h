/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULTS_FAULT_SITE_H
#define TESTS_FAULTS_FAULT_SITE_H
/*
 * Which call fails, and how. A site is `call@object+offset`: the return address of a call, in one
 * of the objects under test (FAULT_OF=name,...). With FAULT_RECORD=file each call adds a line to
 * the file. With FAULT_AT=site#nth=how the nth call from that site gets the fault `how`, and
 * FAULT_HIT=file notes it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OURS_MAX 4
#define HOW_MAX 16

struct object {
	char name[64];
	uintptr_t base, begin, end;
};

static struct {
	struct object ours[OURS_MAX];
	int count;
	const char *record, *hit, *at; /* NULL: none */
	char how[HOW_MAX];
	size_t site_length; /* length of the site in `at`, before the # */
	unsigned int nth;
	atomic_uint seen;
	atomic_int state; /* of the settings; 0: unread, 1: being read, 2: read */
} fault;

static bool site_is_named(const char *list, const char *name)
{
	size_t length = strlen(name);

	while (list && *list) {
		size_t one = strcspn(list, ",");

		if (one == length && !strncmp(list, name, one))
			return true;
		list += one + (list[one] == ',');
	}
	return false;
}

/*
 * Return the path of the program's file. If it was started by a descriptor, as the keeper starts
 * programs, AT_EXECFN is /proc/self/fd/N.
 */
static const char *site_program(void)
{
	static char path[PATH_MAX];
	const char *started = (const char *)getauxval(AT_EXECFN);

	if (strncmp(started, "/proc/self/fd/", 14) != 0 ||
	    readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0)
		return started;
	return path;
}

static int site_visit(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : site_program();
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct object *one = &fault.ours[fault.count];

	if (!site_is_named(user, name) || fault.count == OURS_MAX)
		return 0;
	snprintf(one->name, sizeof(one->name), "%s", name);
	one->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		one->begin = info->dlpi_addr + part->p_vaddr;
		one->end = one->begin + part->p_memsz;
	}
	fault.count++;
	return 0;
}

static void site_read(void)
{
	const char *nth, *how;

	fault.record = getenv("FAULT_RECORD");
	fault.hit = getenv("FAULT_HIT");
	fault.at = getenv("FAULT_AT");
	nth = fault.at ? strchr(fault.at, '#') : NULL;
	how = nth ? strchr(nth, '=') : NULL;
	if (how) {
		fault.site_length = (size_t)(nth - fault.at);
		fault.nth = (unsigned int)strtoul(nth + 1, NULL, 10);
		snprintf(fault.how, sizeof(fault.how), "%s", how + 1);
	} else {
		fault.at = NULL;
	}
	dl_iterate_phdr(site_visit, getenv("FAULT_OF"));
}

/*
 * Read the settings at the first call, which may precede any constructor. Calls made while reading
 * get false.
 */
static bool site_ready(void)
{
	int unread = 0;

	if (atomic_load(&fault.state) == 2)
		return true;
	if (!atomic_compare_exchange_strong(&fault.state, &unread, 1))
		return false;
	site_read();
	atomic_store(&fault.state, 2);
	return true;
}

static const struct object *site_owner(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	for (int i = 0; i < fault.count; i++)
		if (at >= fault.ours[i].begin && at < fault.ours[i].end)
			return &fault.ours[i];
	return NULL;
}

/* By system calls: the C library's functions are replaced in this process. */
static void site_append(const char *path, const char *text, size_t size)
{
	long fd =
	    syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	syscall(SYS_write, fd, text, size);
	syscall(SYS_close, fd);
}

/* Note that the fault has happened. */
static void site_hit(void)
{
	if (fault.hit)
		site_append(fault.hit, "hit\n", 4);
}

static bool site_is_answer(const char *call)
{
	return !strncmp(call, "ask.", 4) || !strncmp(call, "fds.", 4);
}

/* Return the fault for this call, or NULL for none. An answer's fault has only happened when our
 * object takes the answer: see fault_answers.h. errno is preserved. */
static const char *site_due(const char *call, const void *caller)
{
	const struct object *owner = site_ready() ? site_owner(caller) : NULL;
	char site[192];
	int saved = errno, length;
	bool due;

	if (!owner || (!fault.record && !fault.at))
		return NULL;
	length = snprintf(site, sizeof(site), "%s@%s+%lx\n", call, owner->name,
			  (unsigned long)((uintptr_t)caller - owner->base));
	if (fault.record)
		site_append(fault.record, site, (size_t)length);
	due = fault.at && (size_t)length - 1 == fault.site_length &&
	      !strncmp(site, fault.at, fault.site_length) &&
	      atomic_fetch_add(&fault.seen, 1) + 1 == fault.nth;
	if (due && !site_is_answer(call))
		site_hit();
	errno = saved;
	if (due && !strcmp(fault.how, "die"))
		syscall(SYS_exit_group, 99);
	return due ? fault.how : NULL;
}

/* Return the function that one of ours replaces. The preload under test passes dlsym() on. */
static void *site_behind(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		static const char words[] = "lib_fault: a call is not to be found behind it\n";

		syscall(SYS_write, 2, words, sizeof(words) - 1);
		syscall(SYS_exit_group, 99);
	}
	return found;
}

#endif
