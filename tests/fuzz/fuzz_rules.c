/* SPDX-License-Identifier: MIT */
/*
 * GPUSHARE_NAME and GPUSHARE_ATTACH, then allocations. Two copies of the rules must agree. One is
 * asked each time; the other as the shim asks, only if rules_concern() and rules_pass() leave
 * something to ask.
 */
#include "fuzz.h"
#include "gpushare.h"
#include "protocol.h"
#include "preload/rules.h"

static const struct rules_process process = {.pid = 4711, .rank = "3"};

static const struct rules_allocation calls[] = {
#define A(call, of_driver) \
	{.driver = RULES_API_##of_driver, \
	 .runtime = \
	     RULES_API_##call == RULES_API_##of_driver ? RULES_API_NONE : RULES_API_##call},
    RULES_APIS(A)
#undef A
};

static const char *const places[] = {NULL, "", "/usr/lib/libtorch_cuda.so", "libggml.so", "a"};

static struct rules_allocation allocation_of(struct fuzz_bytes *from)
{
	struct rules_allocation allocation =
	    calls[fuzz_byte(from) % (sizeof(calls) / sizeof(*calls))];
	uint8_t size = fuzz_byte(from);

	allocation.size = (uint64_t)(size & 15) << (size >> 4) * 4;
	allocation.device = fuzz_byte(from) % 4;
	allocation.from = places[fuzz_byte(from) % (sizeof(places) / sizeof(*places))];
	return allocation;
}

static void check_match(enum rules_kind kind, const struct rules_match *match)
{
	FUZZ_MUST(name_is_valid(match->name));
	FUZZ_MUST(!(match->flags & ~(uint32_t)(GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_READONLY)));
	if (kind == RULES_NAME)
		FUZZ_MUST(!match->must && !match->wait_ms);
	else
		FUZZ_MUST(!(match->flags & ~(uint32_t)GPUSHARE_FLAG_READONLY) && !match->ttl_s &&
			  !match->adopt && !match->mode && !*match->group);
	FUZZ_MUST(!(match->mode & ~0666u) && strlen(match->group) <= RULES_GROUP_MAX);
}

/* Ask as the shim does. */
static bool ask_lightly(struct rules *rules, const struct rules_allocation *allocation,
			struct rules_match *out)
{
	size_t asked = rules_pass(rules, allocation);

	return asked != RULES_NONE && rules_match(rules, asked, allocation, &process, out);
}

static void give_back(struct rules *rules, const struct rules_allocation *allocation,
		      const struct rules_match *match)
{
	rules_return(rules, match->rule, match->index);
	rules_uncount(rules, allocation);
}

static void allocate(enum rules_kind kind, struct rules *always, struct rules *lightly,
		     struct fuzz_bytes *from)
{
	struct rules_allocation allocation = allocation_of(from);
	struct rules_match one = {0}, other = {0};
	bool concerns = rules_concern(always, &allocation);
	bool matches = rules_match(always, 0, &allocation, &process, &one);

	FUZZ_MUST(matches == ask_lightly(lightly, &allocation, &other));
	FUZZ_MUST(!matches || concerns);
	FUZZ_MUST(rules_alive(always) == rules_alive(lightly));
	if (!matches)
		return;
	check_match(kind, &one);
	FUZZ_MUST(!strcmp(one.name, other.name) && one.rule == other.rule &&
		  one.index == other.index);
	if (fuzz_byte(from) % 4 == 0) {
		give_back(always, &allocation, &one);
		give_back(lightly, &allocation, &other);
	}
}

static void check_error(const char *text, const char *error)
{
	FUZZ_MUST(!*text == !*error);
	FUZZ_MUST(strlen(error) < 512 - 1);
	FUZZ_MUST(!*error || (strstr(error, ">>>") && strstr(error, "<<<")));
	for (; *error; error++)
		FUZZ_MUST(*error >= ' ' && *error <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes from = {data, size};
	enum rules_kind kind = fuzz_byte(&from) % 2 ? RULES_ATTACH : RULES_NAME;
	char text[1024] = "", error[512] = "", error_again[512] = "";
	struct rules *always, *lightly;
	size_t length, allocations;

	allocations = fuzz_byte(&from) % 32;
	while (from.left && strlen(text) < sizeof(text) - 1) {
		uint8_t byte = fuzz_byte(&from);

		if (!byte)
			break;
		length = strlen(text);
		text[length] = (char)byte;
		text[length + 1] = '\0';
	}
	always = rules_parse(kind, "GPUSHARE_NAME", text, error, sizeof(error));
	lightly = rules_parse(kind, "GPUSHARE_NAME", text, error_again, sizeof(error_again));
	FUZZ_MUST(!always == !lightly && !strcmp(error, error_again));
	if (!always)
		check_error(text, error);
	while (always && allocations--)
		allocate(kind, always, lightly, &from);
	rules_free(always);
	rules_free(lightly);
	return 0;
}
