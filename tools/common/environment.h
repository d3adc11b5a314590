/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ENVIRONMENT_H
#define GPUSHARE_TOOLS_ENVIRONMENT_H
/* All environment variables that gpushare reads: X(name, meaning, behaviour without it). The manual
 * is generated from this list. tests/e2e/manual.bats compares the list with the sources. */
#define ENVIRONMENT(X) \
	X(GPUSHARE_NAME, "rules that name a program's allocations", "no allocation gets a name") \
	X(GPUSHARE_ATTACH, \
	  "rules that give a program other programs' named buffers for its allocations", \
	  "each allocation is new memory") \
	X(GPUSHARE_PUBLISH, \
	  "when the preload library publishes a program's named buffers: sync (after each wait " \
	  "for the GPU), free (before a free), exit (when the program ends), or several, " \
	  "separated by commas", \
	  "never") \
	X(GPUSHARE_DIR, "the registry's directory; each directory has its own names", \
	  "$XDG_RUNTIME_DIR/gpushare, else /tmp/gpushare-UID") \
	X(GPUSHARE_TIMEOUT_MS, "longest wait for an answer of the registry, in milliseconds", \
	  "1000") \
	X(GPUSHARE_AUTOSTART, "0: never start a registry", \
	  "a program that needs a registry starts one if none runs") \
	X(GPUSHARE_DEFERRED_FREE, \
	  "most bytes of freed memory that a process holds while others have it attached, such " \
	  "as 512Mi or 2G; 0: none", \
	  "1Gi") \
	X(GPUSHARE_ORDERING, \
	  "host-functions: publish by host functions, as on GPUs without 64-bit stream memory " \
	  "operations", \
	  "by stream memory operations if the GPU has 64-bit ones") \
	X(GPUSHARE_LOG, \
	  "a file, or stderr, to which the preload library writes a line for each buffer that it " \
	  "shares or attaches, or can't share or attach, with the reason", \
	  "nothing is logged") \
	X(GPUSHARE_NODES, \
	  "the list of nodes, for gpushare pull, nodes, ls --nodes and node: a file, or an etcd, " \
	  "as etcd://HOST:PORT/PREFIX", \
	  "$XDG_CONFIG_HOME/gpushare/nodes, else ~/.config/gpushare/nodes") \
	X(GPUSHARE_UCX, "path of UCX's libucp, for gpushare node and pull; none: don't use it", \
	  "libucp.so.0 where the loader looks") \
	X(GPUSHARE_REGISTRY, "path of the registry's program", \
	  "gpushare-registry beside the library, in ../bin or ../../bin from there, or on PATH") \
	X(GPUSHARE_SAME_HOST, \
	  "0: gpushare pull reads by the connection to a node, even if the node is on this host", \
	  "if the node is on this host, the GPU copies the buffer") \
	X(GPUSHARE_SHIM, "path of the preload library, for gpushare run", \
	  "libgpushare_shim.so beside gpushare, in ../lib, or in its multiarch folder") \
	X(GPUSHARE_LIBRARY, "path of the library, for the Python package", \
	  "libgpushare.so.0 where the loader looks")

#endif
