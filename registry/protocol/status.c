/* SPDX-License-Identifier: MIT */
/* Status codes: their text and name, and what an errno means. */
#include <errno.h>

#include "protocol.h"

const char *status_text(int status)
{
	switch (status) {
#define X(name, value, text) \
	case value: \
		return text;
		GPUSHARE_STATUSES(X)
#undef X
	}
	return "unknown status";
}

const char *status_name(int status)
{
	switch (status) {
#define X(name, value, text) \
	case value: \
		return #name;
		GPUSHARE_STATUSES(X)
#undef X
	}
	return "unknown";
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
