/* SPDX-License-Identifier: MIT */
/* Headers of .npy files: written headers can be read back, and other data is refused. */
#include "unit.h"

#include "../../tools/data/npy.h"

#define DICTIONARY(descr, order, shape) \
	"{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

/* Write a version 1.0 header around a dictionary. Return its size. */
static size_t make(const char *dictionary, char out[512])
{
	size_t length = strlen(dictionary);

	memcpy(out, "\x93NUMPY\x01\x00", 8);
	out[8] = (char)(length & 255);
	out[9] = (char)(length >> 8);
	memcpy(out + 10, dictionary, length);
	return 10 + length;
}

static void test_longest_shape(void **state)
{
	struct shape shape = {.rank = SHAPE_RANK_MAX};
	char header[NPY_FORMAT_MAX], why[NPY_WHY_MAX];
	struct npy npy;
	size_t size;

	for (int i = 0; i < SHAPE_RANK_MAX; i++)
		shape.extent[i] = i ? UINT64_MAX : 0;
	size = npy_format(DTYPE_U8, &shape, 4096, header);
	assert_int_equal(size, 4096);
	assert_true(npy_parse(header, size, &npy, why));
	assert_true(shape_equal(&npy.shape, &shape));
	assert_int_equal(npy.data_size, 0);
}

static void test_good(void **state)
{
	static const struct {
		const char *dictionary;
		enum dtype dtype;
		uint64_t size;
	} good[] = {
	    {DICTIONARY("'<f4'", "False", "(2, 3)"), DTYPE_F32, 24},
	    {"{'shape':(3,),'fortran_order':True,'descr':\"=i8\"}  \n", DTYPE_I64, 24},
	    {DICTIONARY("'|b1'", "False", "()"), DTYPE_BOOL, 1},
	    {DICTIONARY("'>u1'", "False", "(4,)"), DTYPE_U8, 4},
	    {DICTIONARY("'|V2'", "False", "(4, 0)"), DTYPE_BF16, 0},
	    {DICTIONARY("'<f2'", "False", "( 1 ,2,\n3 )"), DTYPE_F16, 12},
	};
	char header[512], why[NPY_WHY_MAX];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		size_t size = make(good[i].dictionary, header);
		struct npy npy;

		if (!npy_parse(header, size, &npy, why))
			fail_msg("%s: %s", good[i].dictionary, why);
		assert_int_equal(npy.dtype, good[i].dtype);
		assert_int_equal(npy.data_size, good[i].size);
		assert_int_equal(npy.header_size, size);
	}
}

static void test_bad(void **state)
{
	static const struct {
		const char *dictionary;
		const char *why;
	} bad[] = {
	    {"", "not a dictionary"},
	    {"{}", "not a dictionary"},
	    {"{'descr': '<f4', 'shape': (2,)}", "lacks"},
	    {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "same key twice"},
	    {"{'descr': '<f4', 'colour': 1}", "not a dictionary"},
	    {DICTIONARY("'>f4'", "False", "(2,)"), "big-endian"},
	    {DICTIONARY("'<c8'", "False", "(2,)"), "'<c8'"},
	    {DICTIONARY("'|O'", "False", "(2,)"), "'|O'"},
	    {DICTIONARY("''", "False", "(2,)"), "''"},
	    {DICTIONARY("'\x1b[2J'", "False", "(2,)"), "'?[2J'"},
	    {DICTIONARY("[('a', '<f4')]", "False", "(2,)"), "structures"},
	    {DICTIONARY("'<f4", "False", "(2,)"), "not a dictionary"},
	    {DICTIONARY("'<fffffffffffffffffffffffffffff4'", "False", "(2,)"),
	     "'<fffffffffffffff'"},
	    {DICTIONARY("'<f4'", "True", "(2, 3)"), "Fortran"},
	    {DICTIONARY("'<f4'", "Maybe", "(2, 3)"), "not a dictionary"},
	    {DICTIONARY("'<f4'", "False", "(-2, 3)"), "not a dictionary"},
	    {DICTIONARY("'<f4'", "False", "(2 3)"), "its shape"},
	    {DICTIONARY("'<f4'", "False", "(2, 3"), "not a dictionary"},
	    {DICTIONARY("'<f4'", "False", "2"), "not a dictionary"},
	    {DICTIONARY("'<f4'", "False", "(18446744073709551616,)"), "its shape"},
	    {DICTIONARY("'<f4'", "False", "(4611686018427387904,)"), "larger than any memory"},
	    {DICTIONARY("'<f4'", "False", "(4294967296, 4294967296)"), "larger than any memory"},
	    {DICTIONARY("'<f4'", "False",
			"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
			"1,1,1,1,1,1,1)"),
	     "over 32"},
	    {DICTIONARY("'<f4'", "False", "(2,)") "x", "not a dictionary"},
	};
	char header[512], why[NPY_WHY_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct npy npy = {.dtype = DTYPE_I8};
		size_t size = make(bad[i].dictionary, header);

		if (npy_parse(header, size, &npy, why))
			fail_msg("%s was taken", bad[i].dictionary);
		if (!strstr(why, bad[i].why))
			fail_msg("%s: '%s', not '%s'", bad[i].dictionary, why, bad[i].why);
		assert_int_equal(npy.dtype, DTYPE_I8);
	}
}

static void test_versions(void **state)
{
	char header[512], why[NPY_WHY_MAX];
	const char *dictionary = DICTIONARY("'<f8'", "False", "(2, 3)");
	size_t length = strlen(dictionary);
	struct npy npy;

	for (char version = 2; version <= 3; version++) {
		memcpy(header, "\x93NUMPY\x02\x00\x00\x00\x00\x00", 12);
		header[6] = version;
		header[8] = (char)length;
		memcpy(header + 12, dictionary, length);
		assert_true(npy_parse(header, 12 + length, &npy, why));
		assert_int_equal(npy.header_size, 12 + length);
	}
	header[11] = 1; /* 16 MiB */
	assert_false(npy_parse(header, sizeof(header), &npy, why));
	assert_non_null(strstr(why, "limit"));
	header[6] = 4;
	assert_false(npy_parse(header, sizeof(header), &npy, why));
	assert_non_null(strstr(why, "version"));
	assert_false(npy_is("\x93NUMP", 5));
	assert_false(npy_is("PK\x03\x04..", 6));
}

UNIT_MAIN(UNIT(test_longest_shape), UNIT(test_good), UNIT(test_bad), UNIT(test_versions))
