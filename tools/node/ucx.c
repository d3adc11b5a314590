/* SPDX-License-Identifier: MIT */
#include "ucx.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool.h"

#if __has_include(<ucp/api/ucp.h>)
#include <glob.h>
#include <ucp/api/ucp.h>

#define LIBRARY "libucp.so.0"
#define TRANSPORTS "tcp,rc" /* no shared memory, and no CUDA: UCX sees only host memory */
#define MESSAGE 1	    /* the number of our active message */
#define CLOSE_MS 1000

#define CALLS(X) \
	X(ucp_get_version) \
	X(ucp_config_read) \
	X(ucp_config_modify) \
	X(ucp_config_release) \
	X(ucp_init_version) \
	X(ucp_cleanup) \
	X(ucp_worker_create) \
	X(ucp_worker_destroy) \
	X(ucp_worker_get_address) \
	X(ucp_worker_release_address) \
	X(ucp_worker_get_efd) \
	X(ucp_worker_arm) \
	X(ucp_worker_progress) \
	X(ucp_worker_set_am_recv_handler) \
	X(ucp_ep_create) \
	X(ucp_ep_close_nbx) \
	X(ucp_am_send_nbx) \
	X(ucp_am_recv_data_nbx) \
	X(ucp_request_check_status) \
	X(ucp_request_free) \
	X(ucs_status_string)

static struct {
#define X(name) __typeof__(&name) name;
	CALLS(X)
#undef X
} calls;

/* The header of an active message. */
struct head {
	uint8_t token[NODE_TOKEN_SIZE];
	uint64_t offset;
};

/* A message that was sent. UCX may read `head` until the receiver has the bytes. */
struct sent {
	struct head head;
	ucs_status_t status;
};

/* A message of which only the announcement has come: its bytes are still at the sender. */
struct part {
	void *message; /* UCX's handle; NULL: this entry is free */
	uint64_t offset;
	size_t size;
};

/* Which bytes of the buffer to receive, and where to write them. */
struct expected {
	uint64_t offset;
	char *to;
	size_t size;
};

struct ucx {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_address_t *address;
	ucp_ep_h peer;
	int events;			 /* descriptor: readable when UCX has work */
	struct sent sent[UCX_PARTS_MAX]; /* a ring; `sending` are in use, from `first` on */
	int first, sending;
	bool failed;			/* the connection to the receiver failed */
	uint8_t token[NODE_TOKEN_SIZE]; /* in the header of all messages */
	struct part parts[UCX_PARTS_MAX];
	struct expected expected;
	size_t left;   /* expected bytes whose receive has not begun */
	int receiving; /* receives that have begun and not ended */
	bool broken;   /* a receive failed */
};

static bool load(char why[NODES_WHY_MAX])
{
	static const char *const settings[][2] = {
	    {"UCX_LOG_LEVEL", "fatal"},	   /* we report errors ourselves */
	    {"UCX_HANDLE_ERRORS", "none"}, /* no signal handlers in this process */
	    {"UCX_MEM_EVENTS", "n"},	   /* no patches of mmap() and others */
	    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
	    {"UCX_TCP_RX_SEG_SIZE", "512K"}, /* with UCX's default of 64K, TCP is half as fast */
	};
	const char *given = getenv("GPUSHARE_UCX"), *path = given ? given : LIBRARY;
	void *library;

	if (!*path || !strcmp(path, "none"))
		return nodes_refuse(why, "GPUSHARE_UCX turns UCX off");
	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		setenv(settings[i][0], settings[i][1], 0);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return nodes_refuse(why, "the library can't be loaded: %s", dlerror());
#define X(name) \
	calls.name = (__typeof__(&name))dlsym(library, #name); \
	if (!calls.name) \
		return nodes_refuse(why, "%s has no " #name "()", path);
	CALLS(X)
#undef X
	return true;
}

const char *ucx_version(char *why)
{
	static char version[16], reason[NODES_WHY_MAX];
	unsigned int major, minor, release;

	if (!*version && !*reason && load(reason)) {
		calls.ucp_get_version(&major, &minor, &release);
		snprintf(version, sizeof(version), "%u.%u", major, minor);
	}
	if (!*version)
		nodes_refuse(why, "%s", reason);
	return *version ? version : NULL;
}

/* The interface's name and its RDMA ports, as UCX names them: "eth0,mlx5_0:1". */
static void find_devices(const char *interface, char *out, size_t size)
{
	char pattern[256];
	glob_t found;
	size_t used = (size_t)snprintf(out, size, "%s", interface);

	snprintf(pattern, sizeof(pattern), "/sys/class/net/%.64s/device/infiniband/*/ports/*",
		 interface);
	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc && used < size; i++) {
		char *port = strstr(found.gl_pathv[i], "/ports/");
		char *device = memrchr(found.gl_pathv[i], '/', (size_t)(port - found.gl_pathv[i]));

		*port = '\0';
		used += (size_t)snprintf(out + used, size - used, ",%s:%s", device + 1,
					 port + strlen("/ports/"));
	}
	globfree(&found);
}

static ucs_status_t open_context(struct ucx *ucx, const char *interface)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
	char devices[1024];
	ucp_config_t *config;
	ucs_status_t status = calls.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	find_devices(interface, devices, sizeof(devices));
	status = calls.ucp_config_modify(config, "NET_DEVICES", devices);
	if (status == UCS_OK)
		status = calls.ucp_config_modify(config, "TLS", TRANSPORTS);
	if (status == UCS_OK)
		status = calls.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
						&ucx->context);
	calls.ucp_config_release(config);
	return status;
}

struct ucx *ucx_open(const char *interface, char why[NODES_WHY_MAX])
{
	const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					    .thread_mode = UCS_THREAD_MODE_SERIALIZED};
	struct ucx *ucx;
	ucs_status_t status;

	if (!ucx_version(why))
		return NULL;
	ucx = calloc(1, sizeof(*ucx));
	if (!ucx) {
		nodes_refuse(why, "out of memory");
		return NULL;
	}
	status = open_context(ucx, interface);
	if (status == UCS_OK)
		status = calls.ucp_worker_create(ucx->context, &params, &ucx->worker);
	if (status == UCS_OK)
		status = calls.ucp_worker_get_efd(ucx->worker, &ucx->events);
	if (status == UCS_OK)
		return ucx;
	ucx_close(ucx);
	nodes_refuse(why, "UCX can't use '%s': %s", interface, calls.ucs_status_string(status));
	return NULL;
}

/* Let UCX make progress, or wait until it can. False: `end_ms` has come, or `other` is readable. */
static bool work(struct ucx *ucx, int other, uint64_t end_ms)
{
	struct pollfd events[] = {{.fd = ucx->events, .events = POLLIN},
				  {.fd = other, .events = POLLIN}};
	uint64_t now_ms = tool_now_ms();
	bool busy;
	int count;

	if (now_ms >= end_ms)
		return false;
	if (calls.ucp_worker_progress(ucx->worker))
		return true;
	/* While UCX 1.13 connects, it may be busy all the time: don't wait then. */
	busy = calls.ucp_worker_arm(ucx->worker) == UCS_ERR_BUSY;
	count = poll(events, 2, busy ? 0 : (int)(end_ms - now_ms));
	return (count < 0 && errno == EINTR) || (!events[1].revents && (busy || count > 0));
}

static void close_peer(struct ucx *ucx)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					   .flags = UCP_EP_CLOSE_FLAG_FORCE};
	void *request = calls.ucp_ep_close_nbx(ucx->peer, &param);
	uint64_t end_ms = tool_now_ms() + CLOSE_MS;

	if (!request || UCS_PTR_IS_ERR(request))
		return;
	while (calls.ucp_request_check_status(request) == UCS_INPROGRESS && tool_now_ms() < end_ms)
		calls.ucp_worker_progress(ucx->worker);
	calls.ucp_request_free(request);
}

void ucx_close(struct ucx *ucx)
{
	if (!ucx || ucx->receiving) /* leak: UCX 1.13 aborts if unfinished requests are destroyed */
		return;
	if (ucx->peer)
		close_peer(ucx);
	if (ucx->address)
		calls.ucp_worker_release_address(ucx->worker, ucx->address);
	if (ucx->worker)
		calls.ucp_worker_destroy(ucx->worker);
	if (ucx->context)
		calls.ucp_cleanup(ucx->context);
	free(ucx);
}

static void on_failed(void *user, ucp_ep_h peer, ucs_status_t status)
{
	struct ucx *ucx = user;

	(void)peer;
	(void)status;
	ucx->failed = true;
}

bool ucx_connect(struct ucx *ucx, const void *address, const uint8_t token[NODE_TOKEN_SIZE],
		 char why[NODES_WHY_MAX])
{
	const ucp_ep_params_t params = {
	    .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
			  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
	    .address = address,
	    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
	    .err_handler = {.cb = on_failed, .arg = ucx},
	};
	ucs_status_t status = calls.ucp_ep_create(ucx->worker, &params, &ucx->peer);

	memcpy(ucx->token, token, NODE_TOKEN_SIZE);
	return status == UCS_OK || nodes_refuse(why, "%s", calls.ucs_status_string(status));
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
	struct sent *sent = user;

	sent->status = status;
	calls.ucp_request_free(request);
}

void ucx_start(struct ucx *ucx, uint64_t offset, const void *from, size_t size)
{
	struct sent *sent = &ucx->sent[(ucx->first + ucx->sending++) % UCX_PARTS_MAX];
	const ucp_request_param_t param = {
	    .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
			    UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
	    .flags = UCP_AM_SEND_FLAG_RNDV, /* the receiver chooses where the bytes go */
	    .cb.send = on_sent,
	    .user_data = sent,
	    .memory_type = UCS_MEMORY_TYPE_HOST,
	};
	void *request;

	sent->status = UCS_INPROGRESS;
	sent->head.offset = offset;
	memcpy(sent->head.token, ucx->token, NODE_TOKEN_SIZE);
	request = calls.ucp_am_send_nbx(ucx->peer, MESSAGE, &sent->head, sizeof(sent->head), from,
					size, &param);
	if (!request || UCS_PTR_IS_ERR(request))
		sent->status = UCS_PTR_STATUS(request);
}

bool ucx_finish(struct ucx *ucx, int stop, int patience_ms)
{
	struct sent *sent = &ucx->sent[ucx->first];
	uint64_t end_ms = tool_now_ms() + (uint64_t)patience_ms;

	while (sent->status == UCS_INPROGRESS && !ucx->failed)
		if (!work(ucx, stop, end_ms))
			return false;
	ucx->first = (ucx->first + 1) % UCX_PARTS_MAX;
	ucx->sending--;
	return sent->status == UCS_OK && !ucx->failed;
}

static void end_receiving(struct ucx *ucx, ucs_status_t status)
{
	ucx->broken |= status != UCS_OK;
	ucx->receiving--;
}

static void on_received(void *request, ucs_status_t status, size_t size, void *user)
{
	(void)size;
	end_receiving(user, status);
	calls.ucp_request_free(request);
}

/* Anybody who knows this worker's address can send an active message. For a message without the
 * token, return UCS_OK: UCX then drops its bytes. */
static ucs_status_t on_message(void *user, const void *header, size_t header_size, void *data,
			       size_t size, const ucp_am_recv_param_t *param)
{
	struct ucx *ucx = user;
	struct head head;

	if (header_size != sizeof(head) || !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
		return UCS_OK;
	memcpy(&head, header, sizeof(head));
	if (memcmp(head.token, ucx->token, NODE_TOKEN_SIZE) != 0)
		return UCS_OK;
	for (int i = 0; i < UCX_PARTS_MAX; i++)
		if (!ucx->parts[i].message) {
			ucx->parts[i] = (struct part){data, head.offset, size};
			return UCS_INPROGRESS; /* UCX keeps `data` */
		}
	return UCS_OK;
}

/* Begin to receive the announced parts that are in the expected range. */
static void start_receiving(struct ucx *ucx)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
							   UCP_OP_ATTR_FIELD_USER_DATA |
							   UCP_OP_ATTR_FIELD_MEMORY_TYPE,
					   .cb.recv_am = on_received,
					   .user_data = ucx,
					   .memory_type = UCS_MEMORY_TYPE_HOST};

	for (struct part *part = ucx->parts; part < ucx->parts + UCX_PARTS_MAX; part++) {
		uint64_t at = part->offset - ucx->expected.offset;
		void *request;

		if (!part->message || part->size > ucx->left ||
		    at > ucx->expected.size - part->size)
			continue;
		ucx->left -= part->size;
		ucx->receiving++;
		request = calls.ucp_am_recv_data_nbx(ucx->worker, part->message,
						     ucx->expected.to + at, part->size, &param);
		part->message = NULL;
		if (!request || UCS_PTR_IS_ERR(request))
			end_receiving(ucx, UCS_PTR_STATUS(request));
	}
}

bool ucx_listen(struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE], const void **out_address,
		size_t *out_size)
{
	const ucp_am_handler_param_t handler = {
	    .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
			  UCP_AM_HANDLER_PARAM_FIELD_ARG,
	    .id = MESSAGE,
	    .cb = on_message,
	    .arg = ucx,
	};

	memcpy(ucx->token, token, NODE_TOKEN_SIZE);
	if (calls.ucp_worker_get_address(ucx->worker, &ucx->address, out_size) != UCS_OK ||
	    calls.ucp_worker_set_am_recv_handler(ucx->worker, &handler) != UCS_OK)
		return false;
	*out_address = ucx->address;
	return true;
}

void ucx_expect(struct ucx *ucx, uint64_t offset, void *to, size_t size)
{
	ucx->expected = (struct expected){offset, to, size};
	ucx->left = size;
}

bool ucx_receive(struct ucx *ucx, int other, int patience_ms)
{
	uint64_t end_ms = tool_now_ms() + (uint64_t)patience_ms;

	do
		start_receiving(ucx);
	while ((other >= 0 || ((ucx->left || ucx->receiving) && !ucx->broken)) &&
	       work(ucx, other, end_ms));
	return !ucx->left && !ucx->receiving && !ucx->broken;
}

#else
const char *ucx_version(char *why)
{
	nodes_refuse(why, "this gpushare was built without UCX's headers");
	return NULL;
}

struct ucx *ucx_open(const char *interface, char why[NODES_WHY_MAX])
{
	(void)interface;
	(void)ucx_version(why);
	return NULL;
}

void ucx_close(struct ucx *ucx)
{
	(void)ucx;
}
#endif
