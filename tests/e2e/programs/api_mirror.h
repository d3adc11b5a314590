/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_API_MIRROR_H
#define GPUSHARE_TESTS_API_MIRROR_H
/* Verbs of api_app for mirrors. M is a mirror's slot. They use api_app's slots: include this file
 * after these are defined. */

static struct gpushare_mirror **mirror_of(const char *slot)
{
	static struct gpushare_mirror *mirrors[128];

	return &mirrors[(unsigned char)slot[0] & 127];
}

/* mirror=M,BUFFER,OFFSET,LENGTH,r|w|rw */
VERB(mirror, 5, 5)
{
	unsigned int access = (strchr(argument[4], 'r') ? GPUSHARE_READ : 0) |
			      (strchr(argument[4], 'w') ? GPUSHARE_WRITE : 0);

	say("mirror", argument[0],
	    gpushare_mirror_open(*buffer_of(argument[1]), script_number(argument[2]),
				 script_number(argument[3]), access, mirror_of(argument[0])));
}

/* mput=M,OFFSET,BYTE[,COUNT] and mbyte=M,OFFSET: write or read the host copy */
VERB(mput, 3, 4)
{
	unsigned char *data = gpushare_mirror_data(*mirror_of(argument[0]));

	memset(data + script_number(argument[1]), (int)script_number(argument[2]),
	       count > 3 ? script_number(argument[3]) : 1);
}

VERB(mbyte, 2, 2)
{
	const unsigned char *data = gpushare_mirror_data(*mirror_of(argument[0]));

	printf("mbyte %s: %d\n", argument[0], data[script_number(argument[1])]);
}

/* mirrors=M,B,OFFSET: print whether mirror M and buffer B's bytes from OFFSET on are the same */
VERB(mirrors, 3, 3)
{
	struct gpushare_mirror *mirror = *mirror_of(argument[0]);
	size_t size = gpushare_mirror_size(mirror);
	unsigned char *bytes = script_pattern_new(0, size);
	int status =
	    gpushare_copy_from(*buffer_of(argument[1]), script_number(argument[2]), bytes, size);

	printf("mirrors %s: %s\n", argument[0],
	       status						   ? status_name(status)
	       : memcmp(bytes, gpushare_mirror_data(mirror), size) ? "other bytes"
								   : "the same");
	free(bytes);
}

VERB(msync, 1, 1)
{
	say("msync", argument[0], gpushare_mirror_sync(*mirror_of(argument[0])));
}

VERB(mclose, 1, 1)
{
	say("mclose", argument[0], gpushare_mirror_close(*mirror_of(argument[0])));
}

VERB(mdrop, 1, 1)
{
	gpushare_mirror_drop(*mirror_of(argument[0]));
}

#endif
