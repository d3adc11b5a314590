/* SPDX-License-Identifier: MIT */
#include "api_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol.h"

_Thread_local int64_t api_waited_ms, api_excused_ms;
static _Thread_local char sentence[API_SENTENCE_MAX];

int api_fail(int status, const char *format, ...)
{
	char fresh[API_SENTENCE_MAX]; /* an argument may point into the old sentence */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(fresh, sizeof(fresh), format, arguments);
	va_end(arguments);
	memcpy(sentence, fresh, sizeof(fresh));
	return status;
}

int api_need(int status, int given, const char *name)
{
	return status || given ? status : api_fail(GPUSHARE_E_INVALID, "%s is NULL", name);
}

int api_fail_cuda(const struct driver *driver, cu_result result, const char *call,
		  const char *format, ...)
{
	int status = result == CU_OUT_OF_MEMORY ? GPUSHARE_E_NO_MEMORY : GPUSHARE_E_CUDA;
	char what[API_SENTENCE_MAX - 128];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	return api_fail(status, "%s: %s answered %s", what, call,
			driver_error_name(driver, result));
}

struct api_kept api_keep(void)
{
	struct api_kept kept;

	memcpy(kept.sentence, sentence, sizeof(sentence));
	return kept;
}

void api_unkeep(const struct api_kept *kept)
{
	memcpy(sentence, kept->sentence, sizeof(sentence));
}

int api_check_name(const char *name)
{
	const char *fault = name ? name_fault(name) : "it is NULL";

	if (!fault)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_NAME, "'%.64s%s' is not a buffer name: %s", name ? name : "",
			name && strlen(name) > 64 ? "..." : "", fault);
}

API_PUBLIC const char *gpushare_status_text(int status)
{
	return status_text(status);
}

API_PUBLIC const char *gpushare_explain(void)
{
	return sentence;
}

API_PUBLIC const char *gpushare_version(void)
{
	return GPUSHARE_VERSION;
}
