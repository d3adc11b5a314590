// SPDX-License-Identifier: MIT
/* A driver program that is linked against libcuda.so.1: the loader resolves its calls. */
#include "drv_calls.h"

#define N(call) extern cu_##call##_call call;
DRV_CALLS(N)
#undef N

#define DRV(call) call
#include "drv_verbs.h"

/* early: take over slot e, which the constructor of lib_linked_early.so allocated before main().
 * Only drv_linked_early is linked against that library. */
VERB(early, 0, 0)
{
	const int *code = dlsym(RTLD_DEFAULT, "early_code");
	const cu_deviceptr *pointer = dlsym(RTLD_DEFAULT, "early_pointer");

	if (!code || !pointer)
		script_stop("early: no such library");
	printf("early: %d\n", *code);
	*gpu_slot("e") = (struct gpu_slot){.pointer = *pointer, .size = 3 << 20};
}

int main(int argc, char **argv)
{
	drv_use();
	return script_run(argv + 1);
}
