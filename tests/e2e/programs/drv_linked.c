// SPDX-License-Identifier: MIT
/* A driver program that is linked against libcuda.so.1: the loader resolves its calls. */
#include "drv_calls.h"

#define N(call) extern cu_##call##_call call;
DRV_CALLS(N)
#undef N

#define DRV(call) call
#include "drv_verbs.h"

int main(int argc, char **argv)
{
	drv_use();
	return script_run(argv + 1);
}
