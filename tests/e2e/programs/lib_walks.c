// SPDX-License-Identifier: MIT
/* A preloaded library that counts calls of dl_iterate_phdr(), and the objects that they visit. */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

int walks_made(void);
int walks_visited(void);

typedef int visitor(struct dl_phdr_info *info, size_t size, void *user);

struct walk {
	visitor *visit;
	void *user;
};

static atomic_int made, visited;

static int count(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct walk *walk = user;

	atomic_fetch_add(&visited, 1);
	return walk->visit(info, size, walk->user);
}

int dl_iterate_phdr(visitor *visit, void *user)
{
	int (*real)(visitor *, void *) =
	    (int (*)(visitor *, void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	struct walk walk = {visit, user};

	atomic_fetch_add(&made, 1);
	return real(count, &walk);
}

/* Each returns its count since its last call. */
int walks_made(void)
{
	return atomic_exchange(&made, 0);
}

int walks_visited(void)
{
	return atomic_exchange(&visited, 0);
}
