/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ELF_H
#define GPUSHARE_SHIM_ELF_H
/*
 * Loaded objects and their symbols, read straight from memory. dlopen, dlsym and dlclose would
 * disturb the program's dlerror and the objects' reference counts; this module touches neither.
 * Objects that dlmopen() loaded into another namespace are not seen.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The function `symbol` in the first loaded object that defines it and whose file name begins with
 * `prefix` ("libcuda.so"); NULL: none. `out_base` (may be NULL) receives the load address. */
void *elf_find_in(const char *prefix, const char *symbol, uintptr_t *out_base);

/* The function `symbol` of the vDSO (vdso(7)); NULL: there is none. This doesn't take the loader's
 * lock. */
void *elf_find_vdso(const char *symbol);

/* Find `count` defined functions in the object whose file name begins with `prefix` and whose load
 * address is `base`. `names` has their names one after another, each with its NUL. `out` is an
 * array of `count` pointers, NULL for each function that the object lacks. Walks the loaded objects
 * once. False: no object has that prefix and address. */
bool elf_find_all(const char *prefix, uintptr_t base, const char *names, size_t count, void *out);

/* elf_loads() returns how many objects the loader has loaded and unloaded since the process began.
 * `bases` has `count` load addresses; the entries of objects that are still loaded become 0. If
 * `count` is 0, only one object is visited. */
struct elf_loads {
	unsigned long long loaded, unloaded;
};
struct elf_loads elf_loads(uintptr_t *bases, size_t count);

/* The function `symbol` in the first object that defines it and was loaded after the object that
 * holds `here`: like RTLD_NEXT, but objects loaded with RTLD_LOCAL count too. */
void *elf_find_after(const void *here, const char *symbol);

/* The function `symbol` in a loaded library that the object holding `caller` names as a dependency
 * (DT_NEEDED), by a name that begins with `prefix`. NULL if no such library defines `symbol`. */
void *elf_find_needed(const void *caller, const char *prefix, const char *symbol);

/* Was the object that holds the address `one` loaded before another object, which holds `other`? */
bool elf_is_before(const void *one, const void *other);

/* The path of the object that holds `address`; for the program itself, the path by which it was
 * started. "" if no object holds it. */
void elf_path(const void *address, char *out_path, size_t size);

/* Does `address` lie in an object whose file name begins with `prefix` (NULL: in any)? */
bool elf_is_in(const void *address, const char *prefix, uintptr_t *out_base);

#endif
