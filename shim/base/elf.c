/* SPDX-License-Identifier: MIT */
#include "elf.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

/* The tables of one object that a look-up needs. */
struct object {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const char *soname; /* NULL: none */
	const ElfW(Dyn) * dynamic;
};

struct search {
	const char *prefix; /* of the file name; NULL: any */
	uintptr_t after;    /* search after the object that holds this address; 0: all */
	bool passed;	    /* that object was visited */
	const char *symbol; /* NULL: find the object that holds `address` */
	uintptr_t address;  /* only if `symbol` is NULL */
	char *out_path;	    /* for the path of the object found; NULL: not wanted */
	size_t path_size;
	size_t visited; /* objects, the one found included */
	void *found;
	uintptr_t found_base;
};

static bool name_begins(const char *path, const char *prefix)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;

	return name && !strncmp(name, prefix, strlen(prefix));
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
		    address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
			return true;
	}
	return false;
}

/* glibc relocates the dynamic section's pointers in place, except in the vDSO. */
static const void *at(const struct object *object, ElfW(Addr) pointer)
{
	return (const void *)(pointer < object->base ? object->base + pointer : pointer);
}

static bool object_open(const struct dl_phdr_info *info, struct object *object)
{
	const ElfW(Dyn) *entry = NULL;
	ElfW(Addr) soname = 0;

	memset(object, 0, sizeof(*object));
	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	object->dynamic = entry;
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			object->symbols = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			object->strings = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_GNU_HASH)
			object->gnu_hash = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_HASH)
			object->sysv_hash = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_SONAME)
			soname = entry->d_un.d_val;
	}
	if (soname && object->strings)
		object->soname = object->strings + soname;
	return object->symbols && object->strings && (object->gnu_hash || object->sysv_hash);
}

static void *symbol_address(const struct object *object, uint32_t index, const char *symbol)
{
	const ElfW(Sym) *entry = &object->symbols[index];

	if (entry->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(entry->st_info) != STT_FUNC ||
	    strcmp(object->strings + entry->st_name, symbol) != 0)
		return NULL;
	return (void *)(object->base + entry->st_value);
}

/* Source: the GNU hash section's layout, as binutils and glibc use it. */
static void *find_gnu(const struct object *object, const char *symbol)
{
	const uint32_t *table = object->gnu_hash;
	uint32_t bucket_count = table[0], first = table[1], bloom_size = table[2];
	const uint32_t *buckets = table + 4 + bloom_size * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = buckets + bucket_count;
	uint32_t hash = 5381;

	for (const unsigned char *c = (const unsigned char *)symbol; *c; c++)
		hash = hash * 33 + *c;
	if (!bucket_count)
		return NULL;
	for (uint32_t i = buckets[hash % bucket_count]; i >= first && i; i++) {
		uint32_t here = chain[i - first];

		if ((here | 1) == (hash | 1)) {
			void *found = symbol_address(object, i, symbol);

			if (found)
				return found;
		}
		if (here & 1)
			return NULL;
	}
	return NULL;
}

static void *find_sysv(const struct object *object, const char *symbol)
{
	uint32_t count = object->sysv_hash[1];

	for (uint32_t i = 1; i < count; i++) {
		void *found = symbol_address(object, i, symbol);

		if (found)
			return found;
	}
	return NULL;
}

static void *find(const struct object *object, const char *symbol)
{
	return object->gnu_hash ? find_gnu(object, symbol) : find_sysv(object, symbol);
}

/* dl_iterate_phdr() gives no name for the program itself: take the path by which it was started. */
static void write_path(const struct search *search, const char *path)
{
	if (!path || !*path)
		path = (const char *)getauxval(AT_EXECFN);
	snprintf(search->out_path, search->path_size, "%s", path ? path : "");
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;
	struct object object;

	(void)size;
	search->visited++;
	if (search->after && !search->passed) {
		search->passed = holds(info, search->after);
		return 0;
	}
	if (search->prefix && !name_begins(info->dlpi_name, search->prefix))
		return 0;
	if (!search->symbol) {
		if (!holds(info, search->address))
			return 0;
		search->found = (void *)search->address;
		if (search->out_path)
			write_path(search, info->dlpi_name);
	} else if (object_open(info, &object)) {
		search->found = find(&object, search->symbol);
	}
	search->found_base = info->dlpi_addr;
	return search->found != NULL;
}

void *elf_find_in(const char *prefix, const char *symbol, uintptr_t *out_base)
{
	struct search search = {.prefix = prefix, .symbol = symbol};

	dl_iterate_phdr(visit, &search);
	if (search.found && out_base)
		*out_base = search.found_base;
	return search.found;
}

void *elf_find_vdso(const char *symbol)
{
	const ElfW(Ehdr) *head = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct dl_phdr_info info = {0};
	struct object object;

	if (!head)
		return NULL;
	info.dlpi_phdr = (const void *)((uintptr_t)head + head->e_phoff);
	info.dlpi_phnum = head->e_phnum;
	info.dlpi_addr = (uintptr_t)head;
	for (int i = head->e_phnum; i-- > 0;)
		if (info.dlpi_phdr[i].p_type == PT_LOAD)
			info.dlpi_addr = (uintptr_t)head - info.dlpi_phdr[i].p_vaddr;
	return object_open(&info, &object) ? find(&object, symbol) : NULL;
}

struct filling {
	const char *prefix;
	uintptr_t base;
	const char *names;
	size_t count;
	char *out;
	bool met;
};

static int visit_all(struct dl_phdr_info *info, size_t size, void *user)
{
	struct filling *filling = user;
	const char *name = filling->names;
	struct object object;

	(void)size;
	if (info->dlpi_addr != filling->base || !name_begins(info->dlpi_name, filling->prefix) ||
	    !object_open(info, &object))
		return 0;
	for (size_t i = 0; i < filling->count; i++, name += strlen(name) + 1) {
		void *found = find(&object, name);

		memcpy(filling->out + i * sizeof(found), &found, sizeof(found));
	}
	filling->met = true;
	return 1;
}

bool elf_find_all(const char *prefix, uintptr_t base, const char *names, size_t count, void *out)
{
	struct filling filling = {
	    .prefix = prefix, .base = base, .names = names, .count = count, .out = out};

	dl_iterate_phdr(visit_all, &filling);
	return filling.met;
}

struct counting {
	struct elf_loads loads;
	uintptr_t *bases;
	size_t count, left;
};

static int visit_count(struct dl_phdr_info *info, size_t size, void *user)
{
	struct counting *counting = user;

	(void)size;
	counting->loads.loaded = info->dlpi_adds;
	counting->loads.unloaded = info->dlpi_subs;
	for (size_t i = 0; i < counting->count; i++)
		if (counting->bases[i] == info->dlpi_addr) {
			counting->left -= counting->bases[i] != 0;
			counting->bases[i] = 0;
		}
	return !counting->left;
}

/* dlpi_adds and dlpi_subs change under the lock that dl_iterate_phdr() takes; dlpi_subs changes
 * together with the unmapping: glibc, elf/dl-close.c. */
struct elf_loads elf_loads(uintptr_t *bases, size_t count)
{
	struct counting counting = {.count = count, .left = count};

	counting.bases = bases;
	dl_iterate_phdr(visit_count, &counting);
	return counting.loads;
}

void *elf_find_after(const void *here, const char *symbol)
{
	struct search search = {.after = (uintptr_t)here, .symbol = symbol};

	dl_iterate_phdr(visit, &search);
	return search.found;
}

bool elf_is_in(const void *address, const char *prefix, uintptr_t *out_base)
{
	struct search search = {.prefix = prefix, .address = (uintptr_t)address};

	dl_iterate_phdr(visit, &search);
	if (search.found && out_base)
		*out_base = search.found_base;
	return search.found != NULL;
}

/* The place, in the order of loading, of the object that holds the address. If no object holds it,
 * the last object's place. */
static size_t place_of(const void *address)
{
	struct search search = {.address = (uintptr_t)address};

	dl_iterate_phdr(visit, &search);
	return search.visited;
}

bool elf_is_before(const void *one, const void *other)
{
	return place_of(one) < place_of(other);
}

#define NEEDED_MAX 4 /* dependencies of one object whose names have one prefix */

struct dependency {
	uintptr_t caller;
	const char *prefix, *symbol;
	char needed[NEEDED_MAX][64];
	size_t count;
	void *found;
};

static int collect_needed(struct dl_phdr_info *info, size_t size, void *user)
{
	struct dependency *search = user;
	struct object object;

	(void)size;
	if (!holds(info, search->caller))
		return 0;
	if (!object_open(info, &object))
		return 1;
	for (const ElfW(Dyn) *entry = object.dynamic; entry->d_tag != DT_NULL; entry++) {
		const char *name = object.strings + entry->d_un.d_val;

		if (entry->d_tag == DT_NEEDED && name_begins(name, search->prefix) &&
		    search->count < NEEDED_MAX)
			snprintf(search->needed[search->count++], sizeof(search->needed[0]), "%s",
				 name);
	}
	return 1;
}

static bool is_needed(const struct dependency *search, const char *name)
{
	const char *slash = name ? strrchr(name, '/') : NULL;

	for (size_t i = 0; name && i < search->count; i++)
		if (!strcmp(slash ? slash + 1 : name, search->needed[i]))
			return true;
	return false;
}

static int visit_needed(struct dl_phdr_info *info, size_t size, void *user)
{
	struct dependency *search = user;
	struct object object;

	(void)size;
	if (!object_open(info, &object))
		return 0;
	if (is_needed(search, info->dlpi_name) || is_needed(search, object.soname))
		search->found = find(&object, search->symbol);
	return search->found != NULL;
}

void *elf_find_needed(const void *caller, const char *prefix, const char *symbol)
{
	struct dependency search = {
	    .caller = (uintptr_t)caller, .prefix = prefix, .symbol = symbol};

	dl_iterate_phdr(collect_needed, &search);
	if (search.count)
		dl_iterate_phdr(visit_needed, &search);
	return search.found;
}

void elf_path(const void *address, char *out_path, size_t size)
{
	struct search search = {
	    .address = (uintptr_t)address, .out_path = out_path, .path_size = size};

	*out_path = '\0';
	dl_iterate_phdr(visit, &search);
}
