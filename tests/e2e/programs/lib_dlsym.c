// SPDX-License-Identifier: MIT
/*
 * A preloaded library that has a dlsym of its own, as tracers and quota limiters do. It answers the
 * name wrapper_answer itself, and passes all others on to the C library's dlsym.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

static int answer(void)
{
	return 21;
}

/* Not strcmp(): a sanitizer looks up the real strcmp through this dlsym before its own works. */
static bool is_mine(const char *name)
{
	const char *mine = "wrapper_answer";

	while (*mine && *mine == *name)
		mine++, name++;
	return *mine == *name;
}

static void *(*real_dlsym(void))(void *, const char *)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(*versions); i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return (void *(*)(void *, const char *))found;
}

void *dlsym(void *handle, const char *name)
{
	void *(*real)(void *, const char *) = real_dlsym();

	if (is_mine(name))
		return (void *)answer;
	return real ? real(handle, name) : NULL;
}
