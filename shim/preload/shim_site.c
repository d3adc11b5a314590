/* SPDX-License-Identifier: MIT */
#include "shim_site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/elf.h"
#include "shim_route.h"

__thread struct site site_here;

void site_guard(void)
{
	if (!site_here.inside || site_here.guarded)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &site_here.cancelling);
	site_here.guarded = true;
}

void site_unguard(void)
{
	site_here.guarded = false;
	pthread_setcancelstate(site_here.cancelling, NULL);
}

/* The paths of objects that have allocated. Never freed. */
struct path {
	struct path *older;
	char text[];
};

static _Atomic(struct path *) paths;

static struct path *keep(const char *text)
{
	struct path *newest = atomic_load_explicit(&paths, memory_order_acquire);
	struct path *known = newest, *made;

	while (known && strcmp(known->text, text) != 0)
		known = known->older;
	if (known)
		return known;
	made = malloc(sizeof(*made) + strlen(text) + 1);
	if (!made)
		return NULL;
	strcpy(made->text, text);
	do
		made->older = newest;
	while (!atomic_compare_exchange_weak(&paths, &newest, made));
	return made;
}

static void *find_path(const void *caller, const char *unused)
{
	char text[512];

	(void)unused;
	elf_path(caller, text, sizeof(text));
	return keep(text);
}

const char *site_path(const void *caller)
{
	static struct route routes[ROUTE_SLOTS];
	const struct path *path = route_get(routes, ROUTE_SLOTS, caller, NULL, find_path);

	return path ? path->text : "";
}

bool site_is_internal(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "libnccl", strlen("libnccl"));
}
