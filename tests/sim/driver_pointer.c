/* SPDX-License-Identifier: MIT */
/* Queries of a pointer's address range and attributes. */

#include "driver_vmm.h"

/* CUpointer_attribute values */
enum {
	POINTER_DEVICE_POINTER = 3,
	POINTER_HOST_POINTER = 4,
	POINTER_SYNC_MEMOPS = 6,
	POINTER_IS_MANAGED = 8,
	POINTER_MAPPED = 13,
};

static bool pointer_is_host(const struct region *region)
{
	return region->kind == REGION_HOST || region->kind == REGION_REGISTERED;
}

CALL(cuMemGetAddressRange_v2, NEED_CONTEXT,
     (cu_deviceptr * base, size_t *size, cu_deviceptr pointer), (base, size, pointer))
{
	STATE_LOCKED;
	const struct region *region = region_find(pointer);
	if (!region || pointer_is_host(region) || !region->access)
		return CU_NOT_FOUND;
	if (base)
		*base = region->start;
	if (size)
		*size = region->size;
	return CU_OK;
}

/* The width of the caller's variable depends on the attribute, so copy exactly `size` bytes. */
static cu_result pointer_put(void *value, const void *from, size_t size)
{
	memcpy(value, from, size);
	return CU_OK;
}

/* For a mapping, return the whole reservation. cuMemGetAddressRange returns the mapping instead. */
static void pointer_extent(const struct region *region, uint64_t *start, uint64_t *size)
{
	*start = region->start;
	*size = region->size;
	if (region->kind == REGION_MAPPED)
		map_reservation(region->start, start, size);
}

static cu_result pointer_describe(void *value, cu_pointer_attribute attribute, uint64_t pointer,
				  const struct region *region)
{
	bool host = pointer_is_host(region);
	uint64_t start, size;

	pointer_extent(region, &start, &size);
	switch ((int)attribute) {
	case CU_ATTRIBUTE_CONTEXT: {
		cu_context context = region->context ? region->context : primary_of(region->device);

		if (region->pool)
			context = NULL;
		return pointer_put(value, &context, sizeof(context));
	}
	case CU_ATTRIBUTE_MEMORY_TYPE: {
		unsigned int type = host ? CU_MEMORY_HOST : CU_MEMORY_DEVICE;
		return pointer_put(value, &type, sizeof(type));
	}
	case POINTER_DEVICE_POINTER:
		return pointer_put(value, &pointer, sizeof(pointer));
	case POINTER_HOST_POINTER:
		if (!host && region->kind != REGION_MANAGED)
			return CU_INVALID_VALUE;
		return pointer_put(value, &pointer, sizeof(pointer));
	case POINTER_IS_MANAGED: {
		bool managed = region->kind == REGION_MANAGED;
		return pointer_put(value, &managed, sizeof(managed));
	}
	case CU_ATTRIBUTE_DEVICE_ORDINAL:
		return pointer_put(value, &region->device, sizeof(region->device));
	case CU_ATTRIBUTE_LEGACY_IPC_CAPABLE: {
		bool capable = region->kind == REGION_DEVICE;
		return pointer_put(value, &capable, sizeof(capable));
	}
	case CU_ATTRIBUTE_RANGE_START:
		return pointer_put(value, &start, sizeof(start));
	case CU_ATTRIBUTE_RANGE_SIZE:
		return pointer_put(value, &size, sizeof(size));
	case CU_ATTRIBUTE_BUFFER_ID: {
		unsigned long long id = region->generation;
		return id ? pointer_put(value, &id, sizeof(id)) : CU_INVALID_VALUE;
	}
	case CU_ATTRIBUTE_MEMPOOL: {
		cu_mem_pool pool = region->pool;
		return pointer_put(value, &pool, sizeof(pool));
	}
	case CU_ATTRIBUTE_HANDLE_TYPES: {
		uint64_t types = pool_handle_types(region);
		return pointer_put(value, &types, sizeof(types));
	}
	default:
		return CU_INVALID_VALUE;
	}
}

CALL(cuPointerGetAttribute, NEED_INIT,
     (void *value, cu_pointer_attribute attribute, cu_deviceptr pointer),
     (value, attribute, pointer))
{
	if (!value)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct region *region = region_find(pointer);
	return region ? pointer_describe(value, attribute, pointer, region) : CU_INVALID_VALUE;
}

/* Return the width in bytes of an attribute that cuPointerGetAttributes supports by CUDA's
 * documentation. 0: not supported. */
static size_t pointer_width(int attribute)
{
	switch (attribute) {
	case CU_ATTRIBUTE_CONTEXT:
	case POINTER_DEVICE_POINTER:
	case POINTER_HOST_POINTER:
	case CU_ATTRIBUTE_BUFFER_ID:
	case CU_ATTRIBUTE_RANGE_START:
	case CU_ATTRIBUTE_RANGE_SIZE:
	case CU_ATTRIBUTE_HANDLE_TYPES:
	case CU_ATTRIBUTE_MEMPOOL:
		return sizeof(uint64_t);
	case CU_ATTRIBUTE_MEMORY_TYPE:
	case CU_ATTRIBUTE_DEVICE_ORDINAL:
		return sizeof(int);
	case POINTER_SYNC_MEMOPS:
	case POINTER_IS_MANAGED:
	case CU_ATTRIBUTE_LEGACY_IPC_CAPABLE:
	case POINTER_MAPPED:
		return sizeof(bool);
	default:
		return 0;
	}
}

/* A pointer that CUDA does not know, or that lacks the attribute, is no error here: the value is
 * 0. */
CALL(cuPointerGetAttributes, NEED_INIT,
     (unsigned int count, cu_pointer_attribute *attributes, void **values, cu_deviceptr pointer),
     (count, attributes, values, pointer))
{
	if (!count || !attributes || !values)
		return CU_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!values[i] || !pointer_width((int)attributes[i]))
			return CU_INVALID_VALUE;
	}
	STATE_LOCKED;
	const struct region *region = region_find(pointer);
	for (unsigned int i = 0; i < count; i++) {
		memset(values[i], 0, pointer_width((int)attributes[i]));
		if (region)
			pointer_describe(values[i], attributes[i], pointer, region);
	}
	return CU_OK;
}
