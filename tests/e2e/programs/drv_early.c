// SPDX-License-Identifier: MIT
/* A driver program, linked against libcuda. It also links lib_linked_early.so, which has allocated
 * slot e before main(). */
#include "drv_calls.h"
#include "early.h"

#define N(call) extern cu_##call##_call call;
DRV_CALLS(N)
#undef N

#define DRV(call) call
#include "drv_verbs.h"

int main(int argc, char **argv)
{
	drv_use();
	printf("early: %d\n", early_code);
	*gpu_slot("e") = (struct gpu_slot){.pointer = early_pointer, .size = 3 << 20};
	return script_run(argv + 1);
}
