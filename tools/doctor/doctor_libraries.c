/* SPDX-License-Identifier: MIT */
/* Checks of how a program and its libraries use CUDA. The loader lists the libraries without
 * starting the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "base/cleanup.h"
#include "doctor.h"
#include "elf_file.h"

#define AREA "program"
#define LIST_MAX (256 * 1024)
#define RUNTIME "libcudart.so"
#define DRIVER "libcuda.so"

struct libraries {
	const char *shim;
	bool simulated; /* the driver is that of tests/sim */
	bool seen_shim, seen_cuda;
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Report how one file, the program or one of its libraries, reaches CUDA. */
static void say_cuda(struct libraries *all, const char *path, const struct elf_file *file)
{
	all->seen_cuda |= *file->runtime || file->names_driver;
	if (*file->runtime)
		doctor_ok(AREA, "%s uses the CUDA runtime as a library, %s", name_of(path),
			  file->runtime);
	if (file->has_runtime)
		doctor_ok(AREA, "%s contains the CUDA runtime (static)", name_of(path));
	if (file->has_tables && all->simulated)
		doctor_fail(
		    AREA,
		    "link it with 'nvcc -cudart shared', or with libcudart_static.a of "
		    "the simulated driver's folder",
		    "%s can't run on the simulated driver: it contains NVIDIA's own runtime, which "
		    "calls cuGetExportTable(), and only NVIDIA's driver has those tables",
		    name_of(path));
	if (file->names_driver && !file->has_runtime)
		doctor_ok(AREA, "%s calls the driver directly", name_of(path));
}

/* Report calls that the preload library can't intercept (docs/limits.md). Skip a file that contains
 * the CUDA runtime: it names dlmopen() too, but finds the driver without it. */
static void say_oddities(const char *path, const struct elf_file *file)
{
	if (!file->has_runtime && (file->calls_dlmopen || file->calls_dlvsym))
		doctor_warn(AREA, "check whether its allocations get names",
			    "%s calls %s: CUDA functions found that way bypass the preload",
			    name_of(path), file->calls_dlmopen ? "dlmopen" : "dlvsym");
}

static void say_file(struct libraries *all, const char *path)
{
	struct elf_file file;

	if (begins(name_of(path), DRIVER) || begins(name_of(path), RUNTIME)) {
		if (strstr(path, "/stubs/"))
			doctor_fail(AREA, "remove the stubs' folder from LD_LIBRARY_PATH or RPATH",
				    "it would load %s, a stub that is only for linking", path);
		return;
	}
	if (elf_file_read(path, &file) != ELF_FILE_OK)
		return;
	say_cuda(all, path, &file);
	/* glibc's own files contain the names dlmopen and dlvsym because they define them. */
	if (!begins(name_of(path), "libc.so") && !begins(name_of(path), "libdl.so") &&
	    !begins(name_of(path), "ld-linux"))
		say_oddities(path, &file);
}

/* Lines look like "libx.so => /lib/libx.so (0x...)", "/lib/libx.so (0x...)" or "libx.so => not
 * found", after a tab. */
static void read_line(struct libraries *all, char *line)
{
	char *arrow, *path = line + strspn(line, " \t"), *end;

	arrow = strstr(path, " => ");
	if (arrow && begins(arrow + 4, "not found")) {
		*arrow = '\0';
		doctor_fail(AREA, "install it, or add its folder to LD_LIBRARY_PATH",
			    "it needs %s, which is not found", path);
		return;
	}
	if (strstr(path, "cannot be preloaded"))
		doctor_fail(AREA, "see the loader's message", "%s", path);
	path = arrow ? arrow + 4 : path;
	end = strstr(path, " (0x");
	if (*path != '/' || !end)
		return;
	*end = '\0';
	if (*all->shim && !strcmp(path, all->shim))
		all->seen_shim = true;
	else
		say_file(all, path);
}

static void say_end(const struct libraries *all)
{
	if (all->seen_shim)
		doctor_ok(AREA, "the preload library loads into it");
	else if (*all->shim)
		doctor_fail(AREA, "run it with LD_DEBUG=libs to see why",
			    "the preload library does not load into it");
	if (!all->seen_cuda)
		doctor_warn(
		    AREA,
		    "no problem if it loads CUDA at run time, as Python does: the preload library "
		    "sees that too",
		    "no library that it links uses CUDA");
}

void doctor_libraries(const char *interpreter, const char *path, const struct doctor_found *found)
{
	struct libraries all = {.shim = found->shim, .simulated = found->simulated};
	_cleanup_free_ char *said = malloc(LIST_MAX);
	char *rest = said;
	int code;

	if (!said) {
		doctor_fail(AREA, "free some memory", "no memory for the list of its libraries");
		return;
	}
	say_file(&all, path);
	code = aside_list(interpreter, path, found->shim, said, LIST_MAX);
	for (char *line; (line = strsep(&rest, "\n"));)
		read_line(&all, line);
	if (code && !all.seen_shim)
		doctor_fail(AREA, "see whether it starts at all",
			    "the dynamic loader failed to list the program's libraries: %.200s",
			    said);
	else
		say_end(&all);
}
