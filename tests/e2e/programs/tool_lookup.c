// SPDX-License-Identifier: MIT
/*
 * Look-ups that must give the same results with and without a preloaded dlsym:
 * `tool_lookup FOLDER` finds its libraries in FOLDER.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *load(const char *folder, const char *name)
{
	char path[1024];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

static void call(void *library, const char *name)
{
	int (*found)(void) = dlsym(library, name);

	printf("%s: %d\n", name, found ? found() : -1);
}

static void missing(void *library, const char *name)
{
	const char *text;

	dlerror();
	if (dlsym(library, name))
		printf("%s: found\n", name);
	text = dlerror();
	printf("%s: %s\n", name, text && strstr(text, name) ? "undefined" : "no message");
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"cublasCreate", "curl_easy_init", "cuMemAlloc_v3",
					    "cu"};
	void *lookalikes, *plugin, *self;

	if (argc != 2)
		return 2;
	lookalikes = load(argv[1], "lib_lookalikes.so");
	plugin = load(argv[1], "lib_plugin.so");
	self = dlopen(NULL, RTLD_NOW);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		call(lookalikes, names[i]);
	call(plugin, "plugin_finds_itself");
	missing(lookalikes, "cuNoSuchCall");
	missing(lookalikes, "cuMemAlloc_v2");
	missing(RTLD_DEFAULT, "plugin_private");
	printf("libc: %s\n", dlsym(RTLD_DEFAULT, "getenv") == (void *)getenv ? "same" : "other");
	printf("self: %s\n", dlsym(self, "malloc") ? "found" : "missing");
	printf("parent: %s\n", getppid() > 0 ? "yes" : "no");
	printf("dlsym: %s\n", dlsym(RTLD_DEFAULT, "dlsym") ? "found" : "missing");
	return 0;
}
