/* SPDX-License-Identifier: MIT */
/* Status codes: their text and name, and what an errno means. */
#include <errno.h>

#include "protocol.h"

static const struct {
	const char *name, *text;
} statuses[] = {
#define X(name, value, text) [-(value)] = {#name, text},
    GPUSHARE_STATUSES(X)
#undef X
};

static bool is_known(int status)
{
	return status <= 0 && status > -(int)(sizeof(statuses) / sizeof(*statuses));
}

const char *status_text(int status)
{
	return is_known(status) ? statuses[-status].text : "unknown status";
}

const char *status_name(int status)
{
	return is_known(status) ? statuses[-status].name : "unknown";
}

int status_from_errno(int error)
{
	switch (error) {
	case 0:
		return GPUSHARE_OK;
	case EINVAL:
	case ENAMETOOLONG:
		return GPUSHARE_E_INVALID;
	case EACCES:
	case EPERM:
	case EROFS:
		return GPUSHARE_E_DENIED;
	case ENOENT:
		return GPUSHARE_E_NOT_FOUND;
	case EEXIST:
		return GPUSHARE_E_EXISTS;
	case EAGAIN:
	case ETIMEDOUT:
		return GPUSHARE_E_TIMED_OUT;
	case ECONNREFUSED:
	case ECONNRESET:
	case ENOTCONN:
	case EPIPE:
		return GPUSHARE_E_NO_REGISTRY;
	case EMFILE:
	case ENFILE:
		return GPUSHARE_E_LIMIT;
	case ENOMEM:
		return GPUSHARE_E_NO_MEMORY;
	case ECANCELED:
		return GPUSHARE_E_CANCELLED;
	}
	return GPUSHARE_E_IO;
}
