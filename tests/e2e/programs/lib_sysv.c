// SPDX-License-Identifier: MIT
/* A library with DT_HASH but without DT_GNU_HASH (--hash-style=sysv). */
#include <unistd.h>

int lib_sysv_data = 3;
int lib_sysv_first(void);
int lib_sysv_second(void);

int lib_sysv_first(void)
{
	return (int)getppid();
}

int lib_sysv_second(void)
{
	return lib_sysv_data;
}
