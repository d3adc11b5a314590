/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ELF_H
#define GPUSHARE_SHIM_ELF_H
/*
 * Loaded objects and their symbols, read straight from memory. dlopen, dlsym and dlclose would
 * disturb the program's dlerror and the objects' reference counts; this touches neither.
 * Only the base namespace is seen, as DESIGN.md wants it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The defined function `symbol` in the first loaded object whose file name begins with `prefix`
 * ("libcuda.so"); NULL if there is none. `out_base` (may be NULL) receives the load address. */
void *elf_find_in(const char *prefix, const char *symbol, uintptr_t *out_base);

/* The function `symbol` of the kernel's own object (vdso(7)), without the loader's lock; NULL: there is none. */
void *elf_find_vdso(const char *symbol);

/* The defined functions of `count` names, which stand in `names` one behind another, each with its
 * NUL; in the object whose file name begins with `prefix` and whose load address is `base`. `out` is an
 * array of `count` pointers; NULL for what the object lacks. One walk of the loaded objects. False: no
 * such object is loaded. */
bool elf_find_all(const char *prefix, uintptr_t base, const char *names, size_t count, void *out);

/* How many objects the loader has loaded and unloaded since the process began. Of the load addresses in `bases`
 * those that objects have now become 0. With a count of 0 it costs a look at one object. */
struct elf_loads {
	unsigned long long loaded, unloaded;
};
struct elf_loads elf_loads(uintptr_t *bases, size_t count);

/* The defined function `symbol` in the first object that was loaded after the one that holds
 * `here`: what RTLD_NEXT would say, and local objects too. */
void *elf_find_after(const void *here, const char *symbol);

/* `symbol` in the loaded library whose file or soname begins with `prefix` and which the object that
 * holds `caller` names as a dependency; NULL if it names none, or that one lacks the symbol. */
void *elf_find_needed(const void *caller, const char *prefix, const char *symbol);

/* Was the object that holds `one` loaded before another one, which holds `other`? */
bool elf_is_before(const void *one, const void *other);

/* The path of the object that holds `address`, of the program itself as it was started; "" if none
 * holds it. */
void elf_path(const void *address, char *out_path, size_t size);

/* Does `address` lie in an object whose file name begins with `prefix` (NULL: in any)? */
bool elf_is_in(const void *address, const char *prefix, uintptr_t *out_base);

#endif
