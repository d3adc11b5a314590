/* SPDX-License-Identifier: MIT */
#include "shim_elf.h"

#include <elf.h>
#include <link.h>
#include <string.h>

/* The tables of one object that a look-up needs. */
struct object {
	uintptr_t base;
	const ElfW(Sym) *symbols;
	const char *strings;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
};

struct search {
	const char *prefix;  /* of the file name; NULL: any */
	uintptr_t after;     /* only objects behind the one that holds this address; 0: all */
	bool passed;
	const char *symbol;  /* NULL: the object itself is sought */
	uintptr_t address;   /* sought in an object when `symbol` is NULL */
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

		if (part->p_type == PT_LOAD && address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
			return true;
	}
	return false;
}

/* glibc relocates the dynamic section's pointers in place but for the vDSO's. */
static const void *at(const struct object *object, ElfW(Addr) pointer)
{
	return (const void *)(pointer < object->base ? object->base + pointer : pointer);
}

static bool object_open(const struct dl_phdr_info *info, struct object *object)
{
	const ElfW(Dyn) *entry = NULL;

	memset(object, 0, sizeof(*object));
	object->base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			object->symbols = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_STRTAB)
			object->strings = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_GNU_HASH)
			object->gnu_hash = at(object, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_HASH)
			object->sysv_hash = at(object, entry->d_un.d_ptr);
	}
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

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;
	struct object object;

	(void)size;
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
	} else if (object_open(info, &object)) {
		search->found = object.gnu_hash ? find_gnu(&object, search->symbol)
						: find_sysv(&object, search->symbol);
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
