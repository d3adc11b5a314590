/* SPDX-License-Identifier: MIT */
/* Checks of the preload library, the environment and the limits of this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "common/beside.h"
#include "doctor.h"
#include "elf_file.h"
#include "preload/rules.h"

#define AREA "environment"
#define FEW_DESCRIPTORS 1024

/* X(kind, the variable) */
#define RULE_VARIABLES(X) X(RULES_NAME, "GPUSHARE_NAME") X(RULES_ATTACH, "GPUSHARE_ATTACH")

void doctor_shim(struct doctor_found *found)
{
	struct elf_file file;
	char why[BESIDE_WHY_MAX];

	if (!beside_shim(found->shim, why)) {
		*found->shim = '\0';
		doctor_fail("preload", "install it, or set GPUSHARE_SHIM to its path", "%s", why);
	} else if (elf_file_read(found->shim, &file) != ELF_FILE_OK ||
		   file.machine != elf_file_own_machine()) {
		doctor_fail("preload", "install it again",
			    "%s is damaged, or not a library for this machine's architecture",
			    found->shim);
	} else if (strpbrk(found->shim, " :")) {
		doctor_fail(
		    "preload", "move it to a path without them",
		    "%s can't be preloaded: the loader splits LD_PRELOAD at blanks and colons",
		    found->shim);
	} else {
		doctor_ok("preload", "the library is %s", found->shim);
	}
}

static void check_rules(enum rules_kind kind, const char *variable)
{
	const char *text = getenv(variable);
	char error[1024] = "";

	if (!text || !*text)
		return;
	rules_free(rules_parse(kind, variable, text, error, sizeof(error)));
	if (*error)
		doctor_fail(AREA, "correct it, or unset it", "%s", error);
	else
		doctor_ok(AREA, "%s is '%s'", variable, text);
}

static void say_setting(const char *variable, const char *value, const char *wanted)
{
	doctor_warn(AREA, "correct it, or unset it", "%s is '%s', which is ignored: it takes %s",
		    variable, value, wanted);
}

static void check_preload(const char *shim_name)
{
	const char *text = getenv("LD_PRELOAD");

	if (!text || !*text)
		doctor_ok(AREA, "LD_PRELOAD is empty; 'gpushare run' sets it for one program");
	else if (strstr(text, shim_name))
		doctor_ok(AREA,
			  "LD_PRELOAD has the preload library for every program started here: '%s'",
			  text);
	else
		doctor_warn(AREA,
			    "'gpushare run' puts the preload library first; if buffers get no "
			    "names, try without the other",
			    "LD_PRELOAD has another library: '%s'", text);
}

static void check_system_preload(void)
{
	char line[DOCTOR_WORDS_MAX];

	if (doctor_read_line("/etc/ld.so.preload", line) && line[strspn(line, " \t")])
		doctor_warn(AREA, "if buffers get no names, check that file first",
			    "/etc/ld.so.preload has libraries for every program: '%s'", line);
}

static void check_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FEW_DESCRIPTORS)
		return;
	doctor_warn(AREA, "raise the limit with 'ulimit -n'",
		    "a process may have %llu descriptors here, and each kept, read-only or mapped "
		    "buffer takes one",
		    (unsigned long long)limit.rlim_cur);
}

void doctor_environment(void)
{
	if (getauxval(AT_SECURE))
		doctor_warn(
		    AREA, "run it without set-uid and capabilities",
		    "this program was started with more rights than its user (AT_SECURE): it "
		    "ignores all variables of gpushare");
	check_preload("libgpushare_shim");
	check_system_preload();
#define X(kind, variable) check_rules(kind, variable);
	RULE_VARIABLES(X)
#undef X
	tool_check_settings(say_setting);
	check_descriptors();
}
