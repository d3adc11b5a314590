// SPDX-License-Identifier: MIT
/*
 * A driver program whose script loads libraries, looks up symbols and unloads libraries. It starts
 * without libcuda. H is a handle: `default`, `next`, `self`, or a name of which the first letter
 * counts. After use=H, the verbs of gpu_script.h call the driver functions found in H.
 */
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>

#include "drv_calls.h"

static struct {
#define N(call) cu_##call##_call *call;
	DRV_CALLS(N)
#undef N
} drv;

#define DRV(call) drv.call
#include "drv_verbs.h"

struct library {
	void *handle;
	char path[512];
	uintptr_t base;
};
static struct library libraries[128];

static struct library *library_of(const char *name)
{
	return &libraries[(unsigned char)name[0] & 127];
}

static void *handle_of(const char *name)
{
	if (!strcmp(name, "default"))
		return RTLD_DEFAULT;
	if (!strcmp(name, "next"))
		return RTLD_NEXT;
	if (!strcmp(name, "self"))
		return dlopen(NULL, RTLD_NOW);
	if (!library_of(name)->handle)
		script_stop("no such handle");
	return library_of(name)->handle;
}

/* open=H,PATH[,global|deep|new] */
VERB(open, 2, 3)
{
	struct library *library = library_of(argument[0]);
	const char *how = count > 2 ? argument[2] : "";
	struct link_map *map;
	int flags = RTLD_NOW;

	if (!strcmp(how, "global"))
		flags |= RTLD_GLOBAL;
	else if (!strcmp(how, "deep"))
		flags |= RTLD_DEEPBIND;
	snprintf(library->path, sizeof(library->path), "%s", argument[1]);
	library->handle = !strcmp(how, "new") ? dlmopen(LM_ID_NEWLM, library->path, flags)
					      : dlopen(library->path, flags);
	printf("open %s: %s\n", argument[0], library->handle ? "ok" : dlerror());
	if (!library->handle)
		return;
	dlinfo(library->handle, RTLD_DI_LINKMAP, &map);
	printf("moved %s: %s\n", argument[0],
	       library->base && library->base != map->l_addr ? "yes" : "no");
	library->base = map->l_addr;
}

/* close=H: print whether the library was unloaded or stays loaded */
VERB(close, 1, 1)
{
	struct library *library = library_of(argument[0]);
	int result = dlclose(library->handle);
	void *still = dlopen(library->path, RTLD_NOW | RTLD_NOLOAD);

	printf("close %s: %d, %s\n", argument[0], result, still ? "stays" : "gone");
	if (still)
		dlclose(still);
	library->handle = NULL;
}

/* block=H: map a page at the closed library's address, so that it can't load there again */
VERB(block, 1, 1)
{
	void *place = (void *)library_of(argument[0])->base;

	if (mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) != place)
		script_stop("the place is taken");
}

/* find=H,NAME: print whether dlsym() finds it, or the text of dlerror() */
VERB(find, 2, 2)
{
	void *handle = handle_of(argument[0]);
	void *found;
	const char *text;

	dlerror();
	found = dlsym(handle, argument[1]);
	text = dlerror();
	printf("find %s: %s\n", argument[1], found ? "found" : text ? text : "missing, no message");
	if (found && text)
		printf("find %s: and a message: %s\n", argument[1], text);
}

/* owner=H,NAME: print the file that the function found is from */
VERB(owner, 2, 2)
{
	void *found = dlsym(handle_of(argument[0]), argument[1]);
	Dl_info info;

	if (!found || !dladdr(found, &info))
		printf("owner %s: nobody\n", argument[1]);
	else
		printf("owner %s: %s\n", argument[1], strrchr(info.dli_fname, '/') + 1);
}

/* long=H,LENGTH: look up a name of LENGTH bytes that begins with a driver call's name */
VERB(long, 2, 2)
{
	size_t length = script_number(argument[1]);
	char *name = malloc(length + 1);
	const char *text;
	void *found;

	if (!name)
		script_stop("out of memory");
	memset(name, 'A', length);
	memcpy(name, "cuMemAlloc_v2", 13);
	name[length] = '\0';
	dlerror();
	found = dlsym(handle_of(argument[0]), name);
	text = dlerror();
	printf("long: %s, message of %zu bytes\n", found ? "found" : "missing",
	       text ? strlen(text) : 0);
	free(name);
}

/* call=H,NAME */
VERB(call, 2, 2)
{
	int (*found)(void) = dlsym(handle_of(argument[0]), argument[1]);

	if (found)
		printf("call %s: %d\n", argument[1], found());
	else
		printf("call %s: missing\n", argument[1]);
}

/* both=H,H,COUNT: COUNT look-ups in the two alternately; print whether the heap grows */
VERB(both, 3, 3)
{
	void *handles[2] = {handle_of(argument[0]), handle_of(argument[1])};
	size_t turns = script_number(argument[2]), before, grown;

	for (int i = 0; i < 2; i++)
		if (!dlsym(handles[i], "cuMemAlloc_v2"))
			script_stop("no cuMemAlloc_v2");
	before = mallinfo2().uordblks;
	for (size_t i = 0; i < turns; i++)
		dlsym(handles[i % 2], "cuMemAlloc_v2");
	grown = mallinfo2().uordblks - before;
	printf("both: %s\n", grown < turns ? "the heap stays" : "the heap grows");
}

static void use(void *(*find)(void *, const char *), void *handle)
{
#define N(call) \
	drv.call = find(handle, #call); \
	if (!drv.call) \
		script_stop("not found: " #call);
	DRV_CALLS(N)
#undef N
}

static void *find_plain(void *handle, const char *name)
{
	return dlsym(handle, name);
}

/* use=H[,libc]: with libc, look up by the C library's own dlsym, which dlvsym() finds even if a
 * preloaded library replaces dlsym */
VERB(use, 1, 2)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *(*find)(void *, const char *) = count > 1 ? NULL : find_plain;

	for (size_t i = 0; !find && i < sizeof(versions) / sizeof(*versions); i++)
		find = dlvsym(RTLD_DEFAULT, "dlsym", versions[i]);
	if (!find)
		script_stop("dlvsym finds no dlsym");
	use(find, handle_of(argument[0]));
}

static pthread_barrier_t race_start;
static long race_delay_us;

static void *race_find(void *unused)
{
	const struct timespec delay = {0, race_delay_us * 1000};

	pthread_barrier_wait(&race_start);
	nanosleep(&delay, NULL);
	return dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") ? (void *)1 : NULL;
}

/* race=PATH,MICROSECONDS: load PATH, whose constructor looks up symbols. After the delay, another
 * thread makes its first look-up. */
VERB(race, 2, 2)
{
	pthread_t thread;
	void *library, *found;

	race_delay_us = (long)script_number(argument[1]);
	pthread_barrier_init(&race_start, NULL, 2);
	if (pthread_create(&thread, NULL, race_find, NULL))
		script_stop("pthread_create failed");
	pthread_barrier_wait(&race_start);
	library = dlopen(argument[0], RTLD_NOW);
	pthread_join(thread, &found);
	printf("race: %s, %s\n", library ? "loaded" : dlerror(), found ? "found" : "missing");
}

int main(int argc, char **argv)
{
	drv_use();
	return script_run(argv + 1);
}
