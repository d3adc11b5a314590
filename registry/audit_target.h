/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_AUDIT_TARGET_H
#define GPUSHARE_REGISTRY_AUDIT_TARGET_H
/* Where audit lines go: nowhere, to journald, to a file. No thread, no lock. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct audit_line; /* audit.h */

struct audit_target {
	char path[PATH_MAX]; /* "": to journald */
	int fd;
	bool torn; /* the file ends with a part of a line */
};

/* NULL: that is a target. */
const char *audit_target_fault(const char *word);
bool audit_target_is_off(const char *word);
/* A file's name alone is of `directory`. false: it was said why. */
bool audit_target_open(struct audit_target *target, const char *word, const char *directory);
void audit_target_close(struct audit_target *target);
/* It was renamed, perhaps: a file is opened anew. false: the old one stays. */
bool audit_target_reopen(struct audit_target *target);
/* May wait. false, with errno: the line is lost. */
bool audit_target_write(struct audit_target *target, const struct audit_line *line);

#endif
