/* SPDX-License-Identifier: MIT */
/* Whether a program can be preloaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/beside.h"
#include "doctor.h"
#include "elf_file.h"

#define AREA "program"

static bool find(const char *program, char out[PATH_MAX])
{
	if (strchr(program, '/') ? realpath(program, out) != NULL : beside_program(program, out))
		return true;
	doctor_fail(AREA, "give its path", "'%s' was not found: %s", program,
		    strchr(program, '/') ? strerror(errno) : "it is not on PATH");
	return false;
}

/* Find a script's interpreter; if it is "/usr/bin/env NAME", find NAME. Return false if there is
 * none. */
static bool script_interpreter(const char *path, char out[PATH_MAX])
{
	char line[DOCTOR_WORDS_MAX], *rest = line + 2, *word;

	if (!doctor_read_line(path, line) || strncmp(line, "#!", 2) != 0)
		return false;
	do
		word = strsep(&rest, " \t");
	while (word && !*word);
	if (word && rest && strlen(word) >= 4 && !strcmp(word + strlen(word) - 4, "/env")) {
		do
			word = strsep(&rest, " \t");
		while (word && (!*word || *word == '-'));
		return word && beside_program(word, out);
	}
	return word && realpath(word, out);
}

/* If a program gets extra rights, the kernel sets AT_SECURE and the loader ignores LD_PRELOAD. */
static void check_rights(const char *path)
{
	struct statvfs mount;
	struct stat is;
	const char *what = NULL;

	if (stat(path, &is) || statvfs(path, &mount) || mount.f_flag & ST_NOSUID)
		return;
	if (is.st_mode & S_ISUID && is.st_uid != getuid())
		what = "set-uid";
	else if (is.st_mode & S_ISGID && is.st_gid != getgid())
		what = "set-gid";
	else if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		what = "given capabilities";
	if (what)
		doctor_fail(
		    AREA,
		    "remove these rights (chmod u-s,g-s; setcap -r), or run a copy of the program",
		    "it is %s: the loader ignores LD_PRELOAD for it (AT_SECURE)", what);
	else if (is.st_mode & (S_ISUID | S_ISGID))
		doctor_warn(AREA, "chmod u-s,g-s",
			    "it is set-uid or set-gid: if another user runs it, the loader ignores "
			    "LD_PRELOAD");
}

static bool check_machine(const struct elf_file *file)
{
	char own[32];

	snprintf(own, sizeof(own), "%s", elf_file_machine(elf_file_own_machine()));
	if (file->machine == elf_file_own_machine() && file->is_64)
		return true;
	doctor_fail(AREA, "build it for this machine",
		    "it is for %s%s, but the preload library is for %s",
		    elf_file_machine(file->machine),
		    file->machine == elf_file_own_machine() ? " with 32 bits" : "", own);
	return false;
}

/* Check that the program has the same loader as this one. */
static bool check_loader(const struct elf_file *file)
{
	char theirs[PATH_MAX], ours[PATH_MAX];
	struct elf_file own;

	if (!*file->interpreter) {
		doctor_fail(AREA, "link it dynamically, or use gpushare.h in it",
			    file->has_dynamic
				? "it has no loader: it is a library, or static-pie"
				: "it is static: no loader, nothing can be preloaded");
		return false;
	}
	if (strstr(file->interpreter, "ld-musl")) {
		doctor_fail(AREA, "use a build of it for glibc",
			    "it is for musl (%s), but the preload library is for glibc",
			    file->interpreter);
		return false;
	}
	if (!realpath(file->interpreter, theirs)) {
		doctor_fail(AREA, "install the C library for which it was built",
			    "its loader %s does not exist", file->interpreter);
		return false;
	}
	if (elf_file_read("/proc/self/exe", &own) == ELF_FILE_OK &&
	    realpath(own.interpreter, ours) && !strcmp(theirs, ours))
		return true;
	doctor_warn(AREA, "try it: gpushare run --name x%i -- APP",
		    "it has its own C library (loader %s), which may be too old for the preload "
		    "library",
		    theirs);
	return false;
}

static bool read_program(const char *path, struct elf_file *file)
{
	switch (elf_file_read(path, file)) {
	case ELF_FILE_OK:
		return true;
	case ELF_FILE_UNREADABLE:
		doctor_fail(AREA, "check its permissions", "%s can't be read: %s", path,
			    strerror(errno));
		return false;
	case ELF_FILE_NOT_ELF:
		doctor_fail(AREA, "give doctor the program that runs this file",
			    "%s is neither a program nor a script", path);
		return false;
	case ELF_FILE_BROKEN:
		doctor_fail(AREA, "build or copy it again", "%s is truncated or damaged", path);
	}
	return false;
}

void doctor_program(const char *program, const struct doctor_found *found)
{
	char path[PATH_MAX], interpreter[PATH_MAX];
	struct elf_file file;

	if (!find(program, path))
		return;
	doctor_ok(AREA, "it is %s", path);
	if (access(path, X_OK))
		doctor_fail(AREA, "chmod +x", "it can't be run: %s", strerror(errno));
	if (script_interpreter(path, interpreter)) {
		doctor_ok(AREA, "it is a script, which %s runs", interpreter);
		strcpy(path, interpreter);
	}
	if (!read_program(path, &file) || !check_machine(&file))
		return;
	check_rights(path);
	if (check_loader(&file))
		doctor_libraries(file.interpreter, path, found);
}
