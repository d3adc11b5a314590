/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_OPTIONS_H
#define GPUSHARE_REGISTRY_OPTIONS_H
#include <stdbool.h>

#include "config.h"
#include "os/instance.h"

/* F(name, field, text): flags. V(name, argument, field, text): options with an argument. */
#define OPTIONS(F, V) \
	F("foreground", foreground, \
	  "log to stderr; without it, log nothing and redirect stdio to /dev/null") \
	V("dir", "DIR", directory, \
	  "serve DIR; default $GPUSHARE_DIR, $XDG_RUNTIME_DIR/gpushare, /tmp/gpushare-UID") \
	V("idle-exit", "SECONDS", idle_exit, \
	  "exit after this time without a connection, if no buffer is kept; default 0: never") \
	V("keep-limit", "BYTES", keep_limit, \
	  "limit the memory of all kept buffers together, and of each user's; default 1 TiB") \
	V("config", "FILE", config_file, \
	  "read this file instead of " CONFIG_FILE "; the command line overrides it") \
	F("check-config", check_config, \
	  "print the file's errors or, if there are none, the resulting settings; then exit") \
	F("orphan", orphan, \
	  "for programs that start the registry: if the registry's parent is not init, exit " \
	  "after 1 s without a connection, because the parent may wait for that exit") \
	F("replace", replace, \
	  "ask the registry that serves the directory to exit, and take over its state") \
	F("system", is_system, \
	  "serve all users; a buffer's owner, group and mode define who may use it; default " \
	  "directory " SYSTEM_DIRECTORY) \
	V("group", "NAME", group, "with --system: serve only the users of this group") \
	V("ready-fd", "N", ready_fd, \
	  "when the registry listens, write READY=1 to this file descriptor, and close it") \
	F("keeper", keeper, "for a registry that starts its keeper: hold its file descriptors") \
	F("tidy", tidy, \
	  "for a keeper that must not start a registry that serves clients: remove the buffers " \
	  "of processes that have ended, then exit") \
	F("version", version, "print the version") \
	F("help", help, "print this help")

struct options {
#define F(name, field, text) bool field;
#define V(name, argument, field, text) const char *field; /* NULL: not given */
	OPTIONS(F, V)
#undef F
#undef V
	struct settings settings; /* from the file, or from options that override the file */
	int ready;		  /* the descriptor of --ready-fd; -1: none */
};

/* Returns -1 to continue, else the status to exit with at once. */
int options_parse(struct options *options, int argc, char **argv);

#endif
