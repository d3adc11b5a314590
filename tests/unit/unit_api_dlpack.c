/* SPDX-License-Identifier: MIT */
/* Buffers as DLPack tensors: their fields, and memory that outlives buffer and session. */
#include "unit.h"

#include "api/dlpack.h"
#include "stage.h"

#define SIZE ((size_t)100000)

static struct gpushare_buffer *part_made(struct gpushare_session *session, const char *name,
					 size_t size, uint32_t flags)
{
	const struct gpushare_alloc_options options = {.flags = flags};
	struct gpushare_buffer *buffer;

	OK(gpushare_alloc_with(session, name, size, &options, &buffer));
	return buffer;
}

static struct gpushare_buffer *part_filled(struct gpushare_session *session, const char *name,
					   size_t size, unsigned int seed)
{
	struct gpushare_buffer *buffer = part_made(session, name, size, 0);
	unsigned char *bytes = part_pattern(size, seed);

	OK(gpushare_copy_to(buffer, 0, bytes, size));
	free(bytes);
	return buffer;
}

static void *const UNTOUCHED = (void *)(uintptr_t)16;

static void end(void *managed)
{
	struct dlpack_plain *plain = managed;

	plain->deleter(plain);
}

static void end_versioned(void *managed)
{
	struct dlpack_versioned *versioned = managed;

	versioned->deleter(versioned);
}

static void refuse(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *buffer = part_filled(session, "x", SIZE, 1), *looked;
	struct gpushare_attach_options host_only = {.host_only = 1};
	struct gpushare_dlpack_options options = {.device_type = DLPACK_CPU};
	int64_t sizes[2] = {-1, 1}, empty[3] = {0, INT64_C(1) << 40, INT64_C(1) << 40};
	void *out = UNTOUCHED;

	FAILS(E_INVALID, "NULL", gpushare_dlpack(NULL, NULL, &out));
	FAILS(E_INVALID, "out_managed", gpushare_dlpack(buffer, NULL, NULL));
	FAILS(E_NOT_SUPPORTED, "gpushare_map", gpushare_dlpack(buffer, &options, &out));
	options.device_type = 9;
	FAILS(E_INVALID, "not 9", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.bits = 4};
	FAILS(E_INVALID, "whole bytes", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.bits = 12};
	FAILS(E_INVALID, "whole bytes", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.ndim = 1};
	FAILS(E_INVALID, "dimensions", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.ndim = 65, .shape = sizes};
	FAILS(E_INVALID, "dimensions", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.ndim = 2, .shape = sizes};
	FAILS(E_INVALID, "dimension 0", gpushare_dlpack(buffer, &options, &out));
	sizes[0] = INT64_MAX, sizes[1] = 4;
	FAILS(E_INVALID, "as large", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.ndim = 3, .shape = empty};
	FAILS(E_INVALID, "strides", gpushare_dlpack(buffer, &options, &out));
	options = (struct gpushare_dlpack_options){.ndim = 2, .shape = sizes};
	sizes[0] = (int64_t)SIZE, sizes[1] = 1, options.offset = 1;
	FAILS(E_RANGE, "past the end", gpushare_dlpack(buffer, &options, &out));
	part_made(session, "v", SIZE, GPUSHARE_FLAG_VMM);
	OK(gpushare_attach(session, "v", &host_only, &looked));
	FAILS(E_NOT_SUPPORTED, "host_only", gpushare_dlpack(looked, NULL, &out));
	CHECK(out == UNTOUCHED);
	OK(gpushare_close(session));
}

/* Check the bytes at a tensor's address. */
static void holds(const void *data, unsigned int seed)
{
	unsigned char *expected = part_pattern(SIZE, seed), *found = malloc(SIZE);

	CHECK(found && part_driver()->cuMemcpyDtoH_v2(found, (uintptr_t)data, SIZE) == CU_OK);
	CHECK(!memcmp(found, expected, SIZE));
	free(expected);
	free(found);
}

static void keep_three(void)
{
	struct gpushare_session *session = part_session();

	part_filled(session, "a", SIZE, 3);
	say();
	hear();
	OK(gpushare_close(session));
}

static void outlive(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *attached, *own = part_filled(session, "o", SIZE, 4);
	struct dlpack_plain *first, *second, *of_own;
	struct gpushare_info info;
	void *out;

	hear();
	OK(gpushare_attach(session, "a", NULL, &attached));
	OK(gpushare_dlpack(attached, NULL, &out));
	first = out;
	CHECK(first->tensor.ndim == 1 && first->tensor.shape[0] == (int64_t)SIZE);
	CHECK(first->tensor.type.code == DLPACK_UINT && first->tensor.type.bits == 8);
	OK(gpushare_dlpack(attached, NULL, &out));
	second = out;
	OK(gpushare_dlpack(own, NULL, &out));
	of_own = out;
	OK(gpushare_detach(attached));
	OK(gpushare_free(own));
	FAILS(E_NOT_FOUND, "gone",
	      gpushare_stat(session, "o", &info)); /* the free withdrew the name */
	OK(gpushare_stat(session, "a", &info));
	CHECK(info.attachers == 1);
	end(first);
	OK(gpushare_stat(session, "a", &info));
	CHECK(info.attachers == 1);
	holds(second->tensor.data, 3);
	holds(of_own->tensor.data, 4);
	end(second);
	OK(gpushare_stat(session, "a", &info));
	CHECK(info.attachers == 0);
	/* A tensor also outlives its session. */
	OK(gpushare_attach(session, "a", NULL, &attached));
	OK(gpushare_dlpack(attached, NULL, &out));
	first = out;
	part_filled(session, "other", SIZE, 6);
	OK(gpushare_attach(session, "other", NULL, &attached));
	OK(gpushare_attach(session, "other", NULL, &attached));
	OK(gpushare_close(session));
	holds(first->tensor.data, 3);
	holds(of_own->tensor.data, 4);
	session = part_session();
	FAILS(E_NOT_FOUND, "gone", gpushare_stat(session, "other", &info));
	OK(gpushare_stat(session, "a", &info));
	CHECK(info.attachers == 1);
	end(first);
	holds(of_own->tensor.data, 4);
	end(of_own);
	do /* the registry notices the end of a connection a little later */
		OK(gpushare_stat(session, "a", &info));
	while (info.attachers);
	say();
	OK(gpushare_close(session));
}

/* A read-only buffer, and a part of it that is shared under another name. */
static void make_read_only(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_buffer *whole = part_made(session, "r", SIZE, GPUSHARE_FLAG_READONLY),
			       *part;

	OK(gpushare_share(session, "r/part", gpushare_pointer(whole) + 256, 16, &part));
	say();
	hear();
	OK(gpushare_close(session));
}

static void take_read_only(void)
{
	static const char *const names[] = {"r", "r/part"};
	struct gpushare_session *session = part_session();

	hear();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct gpushare_dlpack_options options = {.versioned = 1};
		struct gpushare_buffer *buffer;
		struct dlpack_versioned *versioned;
		void *out;

		OK(gpushare_attach(session, names[i], NULL, &buffer));
		FAILS(E_READ_ONLY, "read-only", gpushare_copy_to(buffer, 0, "x", 1));
		OK(gpushare_dlpack(buffer, &options, &out));
		versioned = out;
		CHECK(versioned->flags == DLPACK_READ_ONLY);
		end_versioned(versioned);
	}
	say();
	OK(gpushare_close(session));
}

STAGE_MAIN(SCENE(refuse), SCENE(keep_three, outlive), SCENE(make_read_only, take_read_only))
