/* SPDX-License-Identifier: MIT */
/* Workers of UCX on the loopback interface: who gets bytes, and who doesn't. */
#include "../../tools/node/ucx.c"

#include "unit.h"

#include <sys/eventfd.h>

#if __has_include(<ucp/api/ucp.h>)
#define PATIENCE_MS 5000
#define REFUSED_MS 1000

static const uint8_t good[NODE_TOKEN_SIZE] = "good", bad[NODE_TOKEN_SIZE] = "bad";

/* A receiver and a sender that is connected to it. */
struct pair {
	struct ucx *to, *from;
	const void *address;
};

static struct pair connected(void)
{
	char why[NODES_WHY_MAX] = "";
	struct pair pair;
	size_t size;

	if (!ucx_version(why)) {
		print_message("%s\n", why);
		skip();
	}
	pair.to = ucx_open("lo", why);
	pair.from = ucx_open("lo", why);
	assert_string_equal(why, "");
	assert_true(ucx_listen(pair.to, good, &pair.address, &size));
	assert_in_range(size, 1, sizeof(((gpushare_node_Connect *)0)->address.bytes));
	assert_true(ucx_connect(pair.from, pair.address, good, why));
	return pair;
}

/* Let both sides work for a moment. */
static void work_both(struct pair *pair)
{
	static int quiet = -1;

	if (quiet < 0)
		quiet = eventfd(0, EFD_CLOEXEC);
	(void)ucx_receive(pair->to, quiet, 1);
	(void)work(pair->from, -1, tool_now_ms() + 1);
}

/* Like ucx_finish(), and the receiver works meanwhile. */
static bool finish(struct pair *pair, int patience_ms)
{
	uint64_t end_ms = tool_now_ms() + (uint64_t)patience_ms;

	while (!ucx_finish(pair->from, -1, 0))
		if (tool_now_ms() > end_ms)
			return false;
		else
			work_both(pair);
	return true;
}

static void disconnect(struct pair *pair)
{
	ucx_close(pair->from);
	ucx_close(pair->to);
}

static void test_bytes_wait_for_their_place(void **state)
{
	struct pair pair = connected();
	char bytes[3][1000], got[2000] = "";

	for (int i = 0; i < 3; i++)
		memset(bytes[i], 'a' + i, sizeof(bytes[i]));
	ucx_expect(pair.to, 1000, got, 2000);
	ucx_start(pair.from, 2000, bytes[2], 1000);
	ucx_start(pair.from, 0, bytes[0], 1000);
	ucx_start(pair.from, 1000, bytes[1], 1000);
	assert_true(finish(&pair, PATIENCE_MS));
	while (pair.from->sent[2].status == UCS_INPROGRESS)
		work_both(&pair);
	assert_true(ucx_receive(pair.to, -1, PATIENCE_MS));
	assert_memory_equal(got, bytes[1], 1000);
	assert_memory_equal(got + 1000, bytes[2], 1000);
	assert_int_equal(pair.from->sent[1].status, UCS_INPROGRESS);
	ucx_expect(pair.to, 0, got, 1000);
	assert_true(finish(&pair, PATIENCE_MS));
	assert_true(finish(&pair, PATIENCE_MS));
	assert_true(ucx_receive(pair.to, -1, PATIENCE_MS));
	assert_memory_equal(got, bytes[0], 1000);
	disconnect(&pair);
}

static void test_bytes_of_another_token_are_dropped(void **state)
{
	struct pair pair = connected();
	char got[1000] = "", bytes[1000] = "bytes";

	ucx_expect(pair.to, 0, got, sizeof(got));
	memcpy(pair.from->token, bad, NODE_TOKEN_SIZE);
	ucx_start(pair.from, 0, bytes, sizeof(bytes));
	assert_true(finish(&pair, PATIENCE_MS));
	assert_string_equal(got, "");
	memcpy(pair.from->token, good, NODE_TOKEN_SIZE);
	ucx_start(pair.from, 0, bytes, sizeof(bytes));
	assert_true(finish(&pair, PATIENCE_MS));
	assert_true(ucx_receive(pair.to, -1, PATIENCE_MS));
	assert_string_equal(got, "bytes");
	disconnect(&pair);
}

static void test_a_message_beyond_its_place_is_not_received(void **state)
{
	struct pair pair = connected();
	char got[1001] = "", bytes[1001] = "bytes";

	ucx_expect(pair.to, 0, got, 1000);
	ucx_start(pair.from, 0, bytes, 1001);
	ucx_start(pair.from, (uint64_t)-1, bytes, 1000);
	ucx_start(pair.from, 1, bytes, 1000);
	assert_false(finish(&pair, REFUSED_MS));
	assert_false(ucx_receive(pair.to, -1, REFUSED_MS));
	assert_string_equal(got, "");
	disconnect(&pair);
}

static void test_messages_of_another_form_are_dropped(void **state)
{
	struct pair pair = connected();
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
	struct head head = {.offset = 0};
	char got[1000] = "", bytes[1000] = "bytes";

	memcpy(head.token, good, sizeof(head.token));
	ucx_expect(pair.to, 0, got, sizeof(got));
	param.flags = UCP_AM_SEND_FLAG_EAGER;
	(void)calls.ucp_am_send_nbx(pair.from->peer, MESSAGE, &head, sizeof(head), "eager", 6,
				    &param);
	param.flags = UCP_AM_SEND_FLAG_RNDV;
	(void)calls.ucp_am_send_nbx(pair.from->peer, MESSAGE, &head, sizeof(head) - 1, "short", 6,
				    &param);
	ucx_start(pair.from, 0, bytes, sizeof(bytes));
	assert_true(finish(&pair, PATIENCE_MS));
	assert_true(ucx_receive(pair.to, -1, PATIENCE_MS));
	assert_string_equal(got, "bytes");
	disconnect(&pair);
}

/* Begin to send, and return when the receiver knows of it; but it doesn't get the bytes. */
static void announce(struct pair *pair, struct ucx *from, const char *bytes, size_t size)
{
	ucx_start(from, 0, bytes, size);
	memcpy(from->token, bad, NODE_TOKEN_SIZE);
	ucx_start(from, 0, "", 1);
	while (from->sent[1].status == UCS_INPROGRESS)
		work_both(&(struct pair){.to = pair->to, .from = from});
}

static void test_bytes_that_come_twice_are_not_all(void **state)
{
	struct pair pair = connected();
	char why[NODES_WHY_MAX], got[2000] = "", bytes[1000] = "bytes";
	struct ucx *slow = ucx_open("lo", why);

	assert_true(ucx_connect(slow, pair.address, good, why));
	ucx_expect(pair.to, 0, got, 0);
	announce(&pair, slow, bytes, sizeof(bytes));
	ucx_expect(pair.to, 0, got, sizeof(got));
	ucx_start(pair.from, 0, bytes, sizeof(bytes));
	ucx_start(pair.from, 0, bytes, sizeof(bytes));
	assert_true(finish(&pair, PATIENCE_MS));
	assert_false(finish(&pair, REFUSED_MS));
	assert_false(ucx_receive(pair.to, -1, 0)); /* a receive is under way, which writes there */
	ucx_close(slow);
	disconnect(&pair);
}

static int count_descriptors(void)
{
	glob_t found;
	int count;

	assert_int_equal(glob("/proc/self/fd/*", 0, NULL, &found), 0);
	count = (int)found.gl_pathc;
	globfree(&found);
	return count;
}

static void test_a_worker_to_which_nobody_sent_is_closed(void **state)
{
	char why[NODES_WHY_MAX], got;
	int counts[2];

	if (!ucx_version(why))
		skip();
	for (int i = 0; i < 2; i++) { /* the first one also opens what all workers share */
		struct ucx *ucx = ucx_open("lo", why);
		const void *address;
		size_t size;

		assert_true(ucx_listen(ucx, good, &address, &size));
		ucx_expect(ucx, 0, &got, 1);
		assert_false(ucx_receive(ucx, -1, 0));
		ucx_close(ucx);
		counts[i] = count_descriptors();
	}
	assert_int_equal(counts[0], counts[1]);
}

static void test_a_receiver_that_does_nothing_ends_the_wait(void **state)
{
	char why[NODES_WHY_MAX];
	struct pair pair = connected();
	struct ucx *silent = ucx_open("lo", why), *from = ucx_open("lo", why);
	size_t size;

	assert_int_equal(calls.ucp_worker_get_address(silent->worker, &silent->address, &size),
			 UCS_OK);
	assert_true(ucx_connect(from, silent->address, good, why));
	ucx_start(from, 0, "", 1);
	assert_false(ucx_finish(from, -1, REFUSED_MS));
	ucx_close(from);
	ucx_close(silent);
	disconnect(&pair);
}

/* A worker with UCP_FEATURE_RMA, and what it needs to read the memory of another process. */
struct stranger {
	struct ucx ucx;
	ucp_mem_h memory;
	ucp_rkey_h key;
};

#define RMA_CALLS(X) X(ucp_mem_map) X(ucp_rkey_pack) X(ucp_ep_rkey_unpack) X(ucp_get_nbx)
static struct {
#define X(name) __typeof__(&name) name;
	RMA_CALLS(X)
#undef X
} rma;

static struct stranger stranger_open(void)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP};
	const ucp_worker_params_t single = {.field_mask = 0};
	void *library = dlopen(LIBRARY, RTLD_NOW);
	struct stranger it = {.memory = NULL};
	ucp_config_t *config;

#define X(name) rma.name = (__typeof__(&name))dlsym(library, #name);
	RMA_CALLS(X)
#undef X
	assert_int_equal(calls.ucp_config_read(NULL, NULL, &config), UCS_OK);
	assert_int_equal(calls.ucp_config_modify(config, "TLS", "tcp"), UCS_OK);
	assert_int_equal(calls.ucp_config_modify(config, "NET_DEVICES", "lo"), UCS_OK);
	assert_int_equal(
	    calls.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &it.ucx.context),
	    UCS_OK);
	calls.ucp_config_release(config);
	assert_int_equal(calls.ucp_worker_create(it.ucx.context, &single, &it.ucx.worker), UCS_OK);
	assert_int_equal(calls.ucp_worker_get_efd(it.ucx.worker, &it.ucx.events), UCS_OK);
	return it;
}

static void stranger_connect(struct stranger *it, const void *address)
{
	static char own[4096];
	const ucp_mem_map_params_t mapping = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
							    UCP_MEM_MAP_PARAM_FIELD_LENGTH,
					      .address = own,
					      .length = sizeof(own)};
	char why[NODES_WHY_MAX];
	void *packed;
	size_t size;

	assert_int_equal(rma.ucp_mem_map(it->ucx.context, &mapping, &it->memory), UCS_OK);
	assert_int_equal(rma.ucp_rkey_pack(it->ucx.context, it->memory, &packed, &size), UCS_OK);
	assert_true(ucx_connect(&it->ucx, address, bad, why));
	assert_int_equal(rma.ucp_ep_rkey_unpack(it->ucx.peer, packed, &it->key), UCS_OK);
}

static void on_got(void *request, ucs_status_t status, void *user)
{
	*(ucs_status_t *)user = status;
}

/* What a read of `secret` by the peer's worker gives: UCS_INPROGRESS, if nothing came. `other` is
 * progressed meanwhile. */
static ucs_status_t read_secret(struct stranger *it, ucp_worker_h other, const char *secret,
				char *got, size_t size)
{
	ucs_status_t status = UCS_INPROGRESS;
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
							   UCP_OP_ATTR_FIELD_USER_DATA,
					   .cb.send = on_got,
					   .user_data = &status};
	void *request =
	    rma.ucp_get_nbx(it->ucx.peer, got, size, (uintptr_t)secret, it->key, &param);
	uint64_t end_ms = tool_now_ms() + REFUSED_MS;

	if (!request || UCS_PTR_IS_ERR(request))
		return UCS_PTR_STATUS(request);
	while (status == UCS_INPROGRESS && !it->ucx.failed && tool_now_ms() < end_ms) {
		(void)work(&it->ucx, -1, tool_now_ms() + 10);
		calls.ucp_worker_progress(other);
	}
	return it->ucx.failed ? UCS_ERR_CONNECTION_RESET : status;
}

static void test_a_peer_cannot_read_memory(void **state)
{
	static const char secret[] = "a secret of the node";
	struct pair pair = connected();
	struct stranger reader = stranger_open(), second = stranger_open(), open = stranger_open();
	char got[sizeof(secret)] = "";
	size_t size;

	stranger_connect(&reader, pair.address);
	assert_int_not_equal(read_secret(&reader, pair.to->worker, secret, got, sizeof(got)),
			     UCS_OK);
	assert_string_equal(got, "");
	disconnect(&pair);

	/* from a worker with UCP_FEATURE_RMA it does read */
	assert_int_equal(calls.ucp_worker_get_address(open.ucx.worker, &open.ucx.address, &size),
			 UCS_OK);
	stranger_connect(&second, open.ucx.address);
	assert_int_equal(read_secret(&second, open.ucx.worker, secret, got, sizeof(got)), UCS_OK);
	assert_string_equal(got, secret);
}

UNIT_MAIN(UNIT(test_bytes_wait_for_their_place), UNIT(test_bytes_of_another_token_are_dropped),
	  UNIT(test_a_message_beyond_its_place_is_not_received),
	  UNIT(test_messages_of_another_form_are_dropped),
	  UNIT(test_bytes_that_come_twice_are_not_all),
	  UNIT(test_a_worker_to_which_nobody_sent_is_closed),
	  UNIT(test_a_receiver_that_does_nothing_ends_the_wait),
	  UNIT(test_a_peer_cannot_read_memory))
#else
static void test_nothing_was_built(void **state)
{
	char why[NODES_WHY_MAX];

	assert_null(ucx_version(why));
	print_message("%s\n", why);
	skip();
}

UNIT_MAIN(UNIT(test_nothing_was_built))
#endif
