/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ENVIRONMENT_H
#define GPUSHARE_TOOLS_ENVIRONMENT_H
/* All environment variables that gpushare reads: X(name, meaning, behaviour without it). The manual
 * is generated from this list. tests/e2e/manual.bats compares the list with the sources. */
#define ENVIRONMENT(X) \
	X(GPUSHARE_NAME, "rules that name a program's allocations", "none gets a name") \
	X(GPUSHARE_ATTACH, \
	  "rules that answer a program's allocations with other programs' named buffers", \
	  "none is answered so") \
	X(GPUSHARE_PUBLISH, \
	  "when a program's named buffers are published for it, several with commas between " \
	  "them: " \
	  "sync, after each wait for the GPU; free, before a free; exit, when it ends", \
	  "never") \
	X(GPUSHARE_DIR, "the registry's directory: one directory, one world of names", \
	  "$XDG_RUNTIME_DIR/gpushare, else /tmp/gpushare-UID") \
	X(GPUSHARE_TIMEOUT_MS, "longest wait for an answer of the registry, in milliseconds", \
	  "1000") \
	X(GPUSHARE_AUTOSTART, "0: never start a registry", "one is started where none runs") \
	X(GPUSHARE_DEFERRED_FREE, \
	  "how many bytes of freed memory a process holds for those who have it attached still, " \
	  "such as 512Mi or 2G; 0: none", \
	  "1Gi") \
	X(GPUSHARE_ORDERING, \
	  "host-functions: publish by host functions, as GPUs without 64-bit stream memory " \
	  "operations do", \
	  "what the GPU has") \
	X(GPUSHARE_LOG, \
	  "a file, or stderr, that gets a line for each buffer that the preload library shares, " \
	  "attaches, or can't share and why", \
	  "silence") \
	X(GPUSHARE_REGISTRY, "path of the registry's program", \
	  "gpushare-registry beside the library, in ../bin or ../../bin from there, on PATH") \
	X(GPUSHARE_SHIM, "path of the preload library, for gpushare run", \
	  "libgpushare_shim.so beside gpushare, or in ../lib and below") \
	X(GPUSHARE_LIBRARY, "path of the library, for the Python package", \
	  "libgpushare.so.0 where the loader looks")

#endif
