/* SPDX-License-Identifier: MIT */
#include "api_order_stream.h"
int order_event_open(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	(void)buffer;
	return api_fail(GPUSHARE_E_NOT_SUPPORTED, "x %s", ordering->name);
}
bool order_event_keep(struct ordering *ordering)
{
	(void)ordering;
	return false;
}
