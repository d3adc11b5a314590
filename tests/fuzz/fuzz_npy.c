/* SPDX-License-Identifier: MIT */
/*
 * The header of a .npy file. An accepted header must report sizes that fit the input, and read the
 * same when written anew. A refused one must come with a reason: one line of printable text.
 */
#include "../../tools/data/npy.h"
#include "fuzz.h"

static void check_why(const char *why)
{
	size_t length = strnlen(why, NPY_WHY_MAX);

	FUZZ_MUST(length && length < NPY_WHY_MAX);
	for (size_t i = 0; i < length; i++)
		FUZZ_MUST(why[i] >= ' ' && why[i] < 0x7f);
}

static void check_header(const struct npy *npy, size_t size)
{
	uint64_t data_size;

	FUZZ_MUST(npy->dtype > DTYPE_NONE && npy->dtype < DTYPE_COUNT);
	FUZZ_MUST(npy->header_size && npy->header_size <= size);
	FUZZ_MUST(npy->shape.rank >= 0 && npy->shape.rank <= SHAPE_RANK_MAX);
	FUZZ_MUST(shape_size(&npy->shape, dtype_traits(npy->dtype)->size, &data_size));
	FUZZ_MUST(data_size == npy->data_size);
}

static void check_written(const struct npy *npy)
{
	static char header[NPY_FORMAT_MAX];
	char why[NPY_WHY_MAX];
	struct npy again;
	size_t size = npy_format(npy->dtype, &npy->shape, 64, header);

	FUZZ_MUST(size && size <= sizeof(header) && size % 64 == 0);
	FUZZ_MUST(npy_parse(header, size, &again, why));
	FUZZ_MUST(again.dtype == npy->dtype && shape_equal(&again.shape, &npy->shape));
	FUZZ_MUST(again.header_size == size && again.data_size == npy->data_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[NPY_WHY_MAX] = "";
	struct npy npy;

	if (!npy_parse(data, size, &npy, why)) {
		check_why(why);
		return 0;
	}
	FUZZ_MUST(npy_is(data, size));
	check_header(&npy, size);
	check_written(&npy);
	return 0;
}
