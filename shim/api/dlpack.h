/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DLPACK_H
#define GPUSHARE_SHIM_DLPACK_H
/* The part of DLPack 1.0's ABI (dlpack.h of dmlc/dlpack) that tensors of gpushare need. */
#include <stdint.h>

#define DLPACK_MAJOR 1
#define DLPACK_MINOR 0
#define DLPACK_READ_ONLY 1u /* in dlpack_versioned.flags */
#define DLPACK_UINT 1u	    /* in dlpack_type.code */

enum dlpack_device_type { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3 };

struct dlpack_device {
	int32_t type, id;
};

struct dlpack_type {
	uint8_t code, bits;
	uint16_t lanes;
};

struct dlpack_tensor {
	void *data;
	struct dlpack_device device;
	int32_t ndim;
	struct dlpack_type type;
	int64_t *shape, *strides; /* in elements */
	uint64_t byte_offset;
};

struct dlpack_plain {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_plain *self);
};

struct dlpack_versioned {
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dlpack_versioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

#endif
