/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include <math.h>
#include <string.h>

void stats_begin(struct stats *stats, enum dtype dtype)
{
	*stats = (struct stats){.dtype = dtype};
}

/* Neumaier's summation: `lost` accumulates the rounding errors of `sum`. */
static inline void sum_add(double *sum, double *lost, double value)
{
	double all = *sum + value;
	bool small = fabs(*sum) >= fabs(value);
	double most = small ? *sum : value, least = small ? value : *sum;

	*lost += (most - all) + least;
	*sum = all;
}

static bool is_first(const struct stats *stats)
{
	return stats->count == stats->nans;
}

/* Define add_<name>(). `narrow` is the type in memory; `wide` represents each of its values
 * exactly. Local counters stay in registers. */
#define ADD(name, wide, narrow, value, is_real) \
	static void add_##name(struct stats *stats, const unsigned char *data, size_t count) \
	{ \
		double sum = stats->sum, lost = stats->lost; \
		uint64_t nans = 0, zeros = 0; \
		narrow least_raw, most_raw, raw; \
		wide least = 0, most = 0; \
		bool any = !is_first(stats); \
\
		memcpy(&least_raw, stats->least, sizeof(raw)); \
		memcpy(&most_raw, stats->most, sizeof(raw)); \
		if (any) { \
			raw = least_raw; \
			least = (value); \
			raw = most_raw; \
			most = (value); \
		} \
		for (size_t i = 0; i < count; i++) { \
			wide here; \
\
			memcpy(&raw, data + i * sizeof(raw), sizeof(raw)); \
			here = (value); \
			if ((is_real) && isnan((double)here)) { \
				nans++; \
				continue; \
			} \
			if (!any || here < least) { \
				least = here; \
				least_raw = raw; \
			} \
			if (!any || here > most) { \
				most = here; \
				most_raw = raw; \
			} \
			any = true; \
			zeros += here == 0; \
			if ((is_real) && isinf((double)here)) \
				stats->infinities[here > 0]++; \
			else \
				sum_add(&sum, &lost, (double)here); \
		} \
		stats->count += count; \
		stats->nans += nans; \
		stats->zeros += zeros; \
		stats->sum = sum; \
		stats->lost = lost; \
		memcpy(stats->least, &least_raw, sizeof(raw)); \
		memcpy(stats->most, &most_raw, sizeof(raw)); \
	}

ADD(F16, float, uint16_t, dtype_half(raw), true)
ADD(BF16, float, uint16_t, dtype_brain(raw), true)
ADD(F32, float, float, raw, true)
ADD(F64, double, double, raw, true)
ADD(I8, int64_t, int8_t, raw, false) /* NOLINT(bugprone-signed-char-misuse,cert-str34-c): numbers */
ADD(U8, uint64_t, uint8_t, raw, false)
ADD(I16, int64_t, int16_t, raw, false)
ADD(U16, uint64_t, uint16_t, raw, false)
ADD(I32, int64_t, int32_t, raw, false)
ADD(U32, uint64_t, uint32_t, raw, false)
ADD(I64, int64_t, int64_t, raw, false)
ADD(U64, uint64_t, uint64_t, raw, false)
ADD(BOOL, uint64_t, uint8_t, raw != 0, false)

void stats_add(struct stats *stats, const void *data, size_t count)
{
	static void (*const add[DTYPE_COUNT])(struct stats *, const unsigned char *, size_t) = {
#define X(id, ...) [DTYPE_##id] = add_##id,
	    DTYPES(X)
#undef X
	};

	add[stats->dtype](stats, data, count);
}

void stats_merge(struct stats *stats, const struct stats *behind)
{
	struct stats extremes = *stats;

	if (!is_first(behind)) {
		stats_add(&extremes, behind->least, 1);
		stats_add(&extremes, behind->most, 1);
		memcpy(stats->least, extremes.least, sizeof(stats->least));
		memcpy(stats->most, extremes.most, sizeof(stats->most));
	}
	stats->count += behind->count;
	stats->nans += behind->nans;
	stats->zeros += behind->zeros;
	for (int i = 0; i < 2; i++)
		stats->infinities[i] += behind->infinities[i];
	sum_add(&stats->sum, &stats->lost, behind->sum);
	stats->lost += behind->lost;
}

double stats_mean(const struct stats *stats)
{
	const uint64_t *infinities = stats->infinities;

	if (is_first(stats) || (infinities[0] && infinities[1]))
		return (double)NAN;
	if (infinities[0] || infinities[1])
		return infinities[1] ? (double)INFINITY : -(double)INFINITY;
	return (stats->sum + stats->lost) / (double)(stats->count - stats->nans);
}

void stats_extremes(const struct stats *stats, char least[DTYPE_TEXT_MAX],
		    char most[DTYPE_TEXT_MAX])
{
	if (is_first(stats)) {
		strcpy(least, "none");
		strcpy(most, "none");
		return;
	}
	dtype_text(stats->dtype, stats->least, least);
	dtype_text(stats->dtype, stats->most, most);
}
