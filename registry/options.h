/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_OPTIONS_H
#define GPUSHARE_REGISTRY_OPTIONS_H
#include <stdbool.h>

#include "config.h"
#include "os/socket_access.h"

/* F(name, field, text): flags. V(name, argument, field, text): words. gpushare-registry(8) has
 * them all. */
#define OPTIONS(F, V) \
	F("foreground", foreground, \
	  "log to stderr; without it nothing is logged and stdio is let go of") \
	V("dir", "DIR", directory, \
	  "serve there; default $GPUSHARE_DIR, $XDG_RUNTIME_DIR/gpushare, /tmp/gpushare-UID") \
	V("idle-exit", "SECONDS", idle_exit, \
	  "leave after so long without a connection; default 0: never") \
	V("keep-limit", "BYTES", keep_limit, \
	  "memory that names with keep may hold altogether, of all users and of each; default 1 " \
	  "TiB") \
	V("config", "FILE", config_file, \
	  "read that file instead of " CONFIG_FILE "; what stands here goes before what it says") \
	F("check-config", check_config, \
	  "say what is wrong with the file, or print what holds with it, and end") \
	F("orphan", orphan, \
	  "for programs, which start it so: where init is not its parent, leave after 1 s " \
	  "without a connection, for the parent may wait until its children have ended") \
	F("replace", replace, \
	  "ask the one that serves the directory to leave, and take over what it remembers") \
	F("system", is_system, \
	  "serve all users, each by what a buffer's owner, group and mode let him do; default " \
	  "directory " DOOR_DIRECTORY) \
	V("group", "NAME", group, "with --system: serve only the users of this group") \
	V("ready-fd", "N", ready_fd, \
	  "write READY=1 to this file descriptor, and close it, when it listens") \
	F("keeper", keeper, \
	  "be the process that keeps file descriptors for the registry of --dir, which starts it") \
	F("tidy", tidy, \
	  "for a keeper, which starts it so where no registry may serve unasked: end what nobody " \
	  "has any more, serve nobody, and leave") \
	F("version", version, "print the version") \
	F("help", help, "print this")

struct options {
#define F(name, field, text) bool field;
#define V(name, argument, field, text) const char *field; /* NULL: not given */
	OPTIONS(F, V)
#undef F
#undef V
	struct settings settings; /* the file's; options override them */
	int ready;		  /* ready_fd's number; -1: none */
};

/* Returns the exit status to leave with at once; -1: go on. */
int options_parse(struct options *options, int argc, char **argv);

#endif
