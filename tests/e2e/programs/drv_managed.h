/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_MANAGED_H
#define TESTS_E2E_DRV_MANAGED_H
/* Verbs for managed memory: access by the CPU, pointer attributes, prefetches and advice. */
#include "drv_streams.h"

/* poke=SLOT,OFFSET,VALUE and peek=SLOT,OFFSET: write or read a byte by the CPU */
VERB(poke, 3, 3)
{
	volatile unsigned char *data = (void *)(uintptr_t)gpu_slot(argument[0])->pointer;

	data[script_number(argument[1])] = (unsigned char)script_number(argument[2]);
}

VERB(peek, 2, 2)
{
	const volatile unsigned char *data =
	    (const void *)(uintptr_t)gpu_slot(argument[0])->pointer;

	printf("peek %s: %d\n", argument[0], data[script_number(argument[1])]);
}

/* about=SLOT[,OFFSET]: print the attributes of that pointer, without what differs from run to run.
 * `!`: cuPointerGetAttribute and cuPointerGetAttributes return different values. */
VERB(about, 1, 2)
{
	cu_pointer_attribute asked[] = {
	    CU_ATTRIBUTE_CONTEXT,
	    CU_ATTRIBUTE_MEMORY_TYPE,
	    CU_ATTRIBUTE_DEVICE_POINTER,
	    CU_ATTRIBUTE_HOST_POINTER,
	    CU_ATTRIBUTE_IS_MANAGED,
	    CU_ATTRIBUTE_DEVICE_ORDINAL,
	    CU_ATTRIBUTE_LEGACY_IPC_CAPABLE,
	    CU_ATTRIBUTE_RANGE_START,
	    CU_ATTRIBUTE_RANGE_SIZE,
	    CU_ATTRIBUTE_MEMPOOL,
	};
	enum { COUNT = sizeof(asked) / sizeof(*asked) };
	uint64_t values[COUNT] = {0}, one;
	void *places[COUNT];
	cu_deviceptr base = gpu_slot(argument[0])->pointer, at = base;
	int code;

	at += count > 1 ? script_number(argument[1]) : 0;
	for (int i = 0; i < COUNT; i++)
		places[i] = &values[i];
	code = DRV(cuPointerGetAttributes)(COUNT, asked, places, at);
	printf("about %s: %d", argument[0], code);
	for (int i = 0; i < COUNT; i++) {
		one = 0;
		code = DRV(cuPointerGetAttribute)(&one, asked[i], at);
		printf(" %d:%d%s", (int)asked[i], code, one == values[i] ? "" : "!");
		if (asked[i] == CU_ATTRIBUTE_CONTEXT || asked[i] == CU_ATTRIBUTE_MEMPOOL)
			printf("=%s", one ? "some" : "none");
		else if (one >= base && one <= at)
			printf("=+%llu", (unsigned long long)(one - base));
		else
			printf("=%llu", (unsigned long long)one);
	}
	printf("\n");
}

/* prefetch=SLOT,SIZE and advise=SLOT,SIZE: for device 0, by both versions of the call */
VERB(prefetch, 2, 2)
{
	cu_deviceptr at = gpu_slot(argument[0])->pointer;
	const cu_mem_location here = {CU_LOCATION_DEVICE, 0};
	size_t size = script_number(argument[1]);

	printf("prefetch %s: %d", argument[0], DRV(cuMemPrefetchAsync)(at, size, 0, NULL));
	printf(" %d\n", DRV(cuMemPrefetchAsync_v2)(at, size, here, 0, NULL));
}

VERB(advise, 2, 2)
{
	enum { SET_PREFERRED_LOCATION = 3 };
	cu_deviceptr at = gpu_slot(argument[0])->pointer;
	const cu_mem_location here = {CU_LOCATION_DEVICE, 0};
	size_t size = script_number(argument[1]);

	printf("advise %s: %d", argument[0], DRV(cuMemAdvise)(at, size, SET_PREFERRED_LOCATION, 0));
	printf(" %d\n", DRV(cuMemAdvise_v2)(at, size, SET_PREFERRED_LOCATION, here));
}

/* attachmem=SLOT,LETTER: attach all of it to that stream */
VERB(attachmem, 2, 2)
{
	enum { SINGLE = 4 };

	gpu_say("attachmem", argument[0],
		DRV(cuStreamAttachMemAsync)(drv_stream(argument[1]), gpu_slot(argument[0])->pointer,
					    0, SINGLE));
}

/* freeasync=SLOT,LETTER */
VERB(freeasync, 2, 2)
{
	gpu_say("freeasync", argument[0],
		DRV(cuMemFreeAsync)(gpu_slot(argument[0])->pointer, drv_stream(argument[1])));
}

#endif
