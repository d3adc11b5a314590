/* SPDX-License-Identifier: MIT */
/* An etcd (3.4 or later) as the list of nodes: each node has one key, PREFIX/NAME, with a lease.
 * Requests go to etcd's JSON gateway by libcurl, which the first call loads. */
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "base/cleanup.h"
#include "common/tool.h"

bool etcd_is(const char *text)
{
	return text && (!strncmp(text, "etcd://", 7) || !strncmp(text, "etcds://", 8));
}

#if __has_include(<curl/curl.h>)
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define LIBRARY "libcurl.so.4"
#define CONNECT_MS 2000L
#define ANSWER_MS 5000L
#define TTL_S 15 /* of a node's lease */
#define KEEP_ALIVE_S 5
#define ANSWER_MAX ((size_t)16 << 20)
#define TEXT_MAX 1024 /* bytes of a key, a value, a token or a password, NUL included */
#define PREFIX_MAX 512
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

/* X(name): functions of libcurl, which is loaded at run time. If it were linked, each command would
 * load thirty libraries. */
#define CALLS(X) \
	X(easy_init) \
	X(easy_setopt) \
	X(easy_perform) \
	X(easy_getinfo) X(easy_strerror) X(easy_cleanup) X(slist_append) X(slist_free_all)

static struct {
#define X(name) __typeof__(&curl_##name) name;
	CALLS(X)
#undef X
} curl;

struct etcd {
	CURL *curl;
	char host[ADDRESS_MAX];	     /* host and port */
	char base[ADDRESS_MAX + 16]; /* URL of the calls */
	char prefix[PREFIX_MAX];     /* of keys, with a slash at its end */
	char user[256], password[256];
	struct curl_slist *login; /* a header with a token; NULL: none yet */
	char *answer;		  /* ANSWER_MAX bytes */
	long code;		  /* HTTP status; 0: there was no answer */
};

static bool refuse(const struct etcd *etcd, const char *reason, char why[NODES_WHY_MAX])
{
	char text[TEXT_MAX];

	tool_printable(reason, text, sizeof(text));
	return nodes_refuse(why,
			    "etcd at %s: %s; a node's address, tls://HOST:PORT, works without etcd",
			    etcd->host, text);
}

static bool load(char why[NODES_WHY_MAX])
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool good = library;

#define X(name) good = good && (curl.name = (__typeof__(curl.name))dlsym(library, "curl_" #name));
	CALLS(X)
#undef X
	return good ||
	       nodes_refuse(why, "libcurl, which asks an etcd, is missing: %s; install libcurl4",
			    dlerror());
}

static bool parse(struct etcd *etcd, const char *text, char why[NODES_WHY_MAX])
{
	char path[PREFIX_MAX - 2] = "", host[ADDRESS_MAX] = "tcp://", more;
	struct address address;

	if (sscanf(text, "%*[a-z]://%280[^/@]/%509s%c", host + 6, path, &more) != 2 ||
	    !address_parse(host, &address))
		return nodes_refuse(
		    why, "GPUSHARE_NODES names an etcd by etcd://HOST:PORT/PREFIX, or etcds:// for "
			 "TLS; user and password are in the file etcd-password");
	strcpy(etcd->host, host + 6);
	snprintf(etcd->base, sizeof(etcd->base), "http%s://%s/v3", text[4] == 's' ? "s" : "",
		 etcd->host);
	snprintf(etcd->prefix, sizeof(etcd->prefix), "/%s%s", path,
		 path[strlen(path) - 1] == '/' ? "" : "/");
	return true;
}

static bool read_password(struct etcd *etcd, char why[NODES_WHY_MAX])
{
	char path[PATH_MAX];
	FILE *file;
	int words;

	if (!nodes_file("", "etcd-password", 077, path, why))
		return false;
	if (!*path)
		return true;
	file = fopen(path, "re");
	if (!file)
		return nodes_refuse(why, "%.4000s: %s", path, strerror(errno));
	words = fscanf(file, "%255[^:\n]:%255[^\n]", etcd->user, etcd->password);
	fclose(file);
	return words == 2 || nodes_refuse(why, "%.4000s: it needs a line 'USER:PASSWORD'", path);
}

static void etcd_close(struct etcd *etcd)
{
	if (etcd->curl)
		curl.easy_cleanup(etcd->curl);
	if (etcd->login)
		curl.slist_free_all(etcd->login);
	free(etcd->answer);
}

/* Call etcd_close() in any case. */
static bool etcd_open(struct etcd *etcd, const char *text, char why[NODES_WHY_MAX])
{
	char ca[PATH_MAX], own[PATH_MAX];

	*etcd = (struct etcd){.curl = NULL};
	if (!parse(etcd, text, why) || !read_password(etcd, why) ||
	    !nodes_file("", "etcd.pem", 077, own, why) ||
	    !nodes_file("", "etcd-ca.pem", 022, ca, why) || !load(why))
		return false;
	etcd->answer = malloc(ANSWER_MAX);
	etcd->curl = etcd->answer ? curl.easy_init() : NULL;
	if (!etcd->curl)
		return refuse(etcd, "out of memory", why);
	curl.easy_setopt(etcd->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl.easy_setopt(etcd->curl, CURLOPT_TIMEOUT_MS, ANSWER_MS);
	curl.easy_setopt(etcd->curl, CURLOPT_NOSIGNAL, 1L);
	curl.easy_setopt(etcd->curl, CURLOPT_PROXY, "");
#if LIBCURL_VERSION_NUM >= 0x075700
	/* at the timeout, don't wait for the resolver's thread */
	curl.easy_setopt(etcd->curl, CURLOPT_QUICK_EXIT, 1L);
#endif
	if (*own)
		curl.easy_setopt(etcd->curl, CURLOPT_SSLCERT, own);
	if (*ca)
		curl.easy_setopt(etcd->curl, CURLOPT_CAINFO, ca);
	return true;
}

/* Post `question` to etcd, and return the answer. NULL: the reason is in `why`. */
static json_t *post(struct etcd *etcd, const char *call, const json_t *question,
		    char why[NODES_WHY_MAX])
{
	FILE *file = fmemopen(etcd->answer, ANSWER_MAX, "w");
	_cleanup_free_ char *text = json_dumps(question, 0);
	const char *reason = "its answer makes no sense";
	char url[sizeof(etcd->base) + 32];
	json_t *answer = NULL;
	CURLcode error = CURLE_OUT_OF_MEMORY;

	etcd->code = 0;
	snprintf(url, sizeof(url), "%s/%s", etcd->base, call);
	if (file && text) {
		setbuf(file, NULL); /* so that the write of too long an answer fails */
		curl.easy_setopt(etcd->curl, CURLOPT_URL, url);
		curl.easy_setopt(etcd->curl, CURLOPT_POSTFIELDS, text);
		curl.easy_setopt(etcd->curl, CURLOPT_HTTPHEADER, etcd->login);
		curl.easy_setopt(etcd->curl, CURLOPT_WRITEDATA, file);
		error = curl.easy_perform(etcd->curl);
		curl.easy_getinfo(etcd->curl, CURLINFO_RESPONSE_CODE, &etcd->code);
	}
	if (error)
		reason = error == CURLE_WRITE_ERROR ? "its answer is too long"
						    : curl.easy_strerror(error);
	else
		answer = json_loadb(etcd->answer, (size_t)ftell(file), 0, NULL);
	if (file)
		fclose(file);
	if (answer && etcd->code == 200)
		return answer;
	json_unpack(answer, "{s:s}", "message", &reason);
	refuse(etcd, reason, why);
	json_decref(answer);
	return NULL;
}

static bool log_in(struct etcd *etcd, char why[NODES_WHY_MAX])
{
	json_t *names = json_pack("{s:s, s:s}", "name", etcd->user, "password", etcd->password);
	json_t *answer = post(etcd, "auth/authenticate", names, why);
	const char *token = "";
	char header[TEXT_MAX];

	if (answer) {
		json_unpack(answer, "{s:s}", "token", &token);
		snprintf(header, sizeof(header), "Authorization: %s", token);
		etcd->login = curl.slist_append(NULL, header);
		refuse(etcd, "out of memory", why);
	}
	json_decref(answer);
	json_decref(names);
	return etcd->login;
}

/* Like post(), but first log in if there is a password, and free the question. */
static json_t *ask(struct etcd *etcd, const char *call, json_t *question, char why[NODES_WHY_MAX])
{
	bool had = etcd->login;
	json_t *answer = NULL;

	if (had || !*etcd->user || log_in(etcd, why))
		answer = post(etcd, call, question, why);
	if (!answer && had && etcd->code) { /* the token may have expired, or etcd restarted */
		curl.slist_free_all(etcd->login);
		etcd->login = NULL;
		if (log_in(etcd, why))
			answer = post(etcd, call, question, why);
	}
	json_decref(question);
	return answer;
}

/* `text` followed by `tail` in base64, the gateway's form of keys and values. */
static json_t *encoded(const char *text, const char *tail)
{
	char joined[TEXT_MAX], out[BASE64_ENCODE_RAW_LENGTH(TEXT_MAX)];
	size_t size = (size_t)snprintf(joined, sizeof(joined), "%s%s", text, tail);

	if (size >= sizeof(joined))
		return NULL;
	base64_encode_raw(out, size, (const uint8_t *)joined);
	return json_stringn(out, BASE64_ENCODE_RAW_LENGTH(size));
}

static bool decode(const char *from, char out[TEXT_MAX])
{
	struct base64_decode_ctx base64;
	size_t size = TEXT_MAX;

	base64_decode_init(&base64);
	if (BASE64_DECODE_LENGTH(strlen(from)) >= TEXT_MAX ||
	    !base64_decode_update(&base64, &size, (uint8_t *)out, strlen(from), from))
		return false;
	out[size] = '\0';
	return strlen(out) == size;
}

static bool is_name(const char *text)
{
	return *text && strlen(text) < NODE_NAME_MAX && strspn(text, LETTERS) == strlen(text);
}

/* Accept TLS addresses only: other users may be able to write keys under the prefix, and only TLS
 * proves that a node belongs to this user. */
static bool is_address(const char *text)
{
	struct address address;

	return address_parse(text, &address) && address.tls &&
	       strspn(text, LETTERS ":/[]") == strlen(text);
}

/* Add the node that a key and its value describe. Skip keys that don't describe a node. */
static void add(struct nodes *nodes, const char *prefix, json_t *pair)
{
	const char *key64 = "", *value64 = "", *address = "";
	char key[TEXT_MAX], value[TEXT_MAX];
	json_t *node = NULL;

	json_unpack(pair, "{s:s, s:s}", "key", &key64, "value", &value64);
	if (decode(key64, key) && decode(value64, value) && !strncmp(key, prefix, strlen(prefix)))
		node = json_loads(value, 0, NULL);
	if (!json_unpack(node, "{s:s}", "address", &address) && is_address(address) &&
	    is_name(key + strlen(prefix)))
		nodes_add(nodes, key + strlen(prefix), address);
	json_decref(node);
}

bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX])
{
	json_t *answer = NULL, *pairs;
	char end[PREFIX_MAX];
	struct etcd etcd;
	bool good;

	if (etcd_open(&etcd, text, why)) {
		strcpy(end, etcd.prefix);
		end[strlen(end) - 1]++;
		answer = ask(&etcd, "kv/range",
			     json_pack("{s:o, s:o}", "key", encoded(etcd.prefix, ""), "range_end",
				       encoded(end, "")),
			     why);
	}
	pairs = json_object_get(answer, "kvs");
	good = answer && (json_array_size(pairs) <= NODES_MAX ||
			  refuse(&etcd, "the prefix has more than 256 keys", why));
	for (size_t i = 0; good && i < json_array_size(pairs); i++)
		add(nodes, etcd.prefix, json_array_get(pairs, i));
	etcd_close(&etcd);
	json_decref(answer);
	return good;
}

/* The node that the thread of etcd_join() keeps registered. */
struct member {
	struct etcd etcd;
	char name[NODE_NAME_MAX], address[ADDRESS_MAX];
	char *value;	/* of the key */
	char lease[32]; /* number of the lease; "": none */
};

/* Put the key if it has our value already, which is usual from the second call on; else if the key
 * doesn't exist. A key with another value belongs to another node. */
static bool enter(struct member *member, char why[NODES_WHY_MAX])
{
	const char *prefix = member->etcd.prefix, *name = member->name, *value = member->value;
	bool entered = false;
	json_t *answer;

	for (int i = 0; i < 2 && !entered; i++) {
		json_t *is = i ? json_pack("{s:o, s:s, s:s}", "key", encoded(prefix, name),
					   "target", "CREATE", "create_revision", "0")
			       : json_pack("{s:o, s:s, s:o}", "key", encoded(prefix, name),
					   "target", "VALUE", "value", encoded(value, ""));

		answer = ask(&member->etcd, "kv/txn",
			     json_pack("{s:[o], s:[{s:{s:o, s:o, s:s}}]}", "compare", is, "success",
				       "request_put", "key", encoded(prefix, name), "value",
				       encoded(value, ""), "lease", member->lease),
			     why);
		if (!answer)
			return false;
		entered = json_is_true(json_object_get(answer, "succeeded"));
		json_decref(answer);
	}
	return entered ||
	       nodes_refuse(
		   why,
		   "not registered: there is another node '%s'; --as gives this one another name",
		   name);
}

/* Get a lease, or renew it. For a lease that has expired, the answer has no TTL. */
static bool keep_lease(struct member *member, char why[NODES_WHY_MAX])
{
	const char *lease = member->lease, *ttl = "";
	json_t *answer;

	if (*lease) {
		answer =
		    ask(&member->etcd, "lease/keepalive", json_pack("{s:s}", "ID", lease), why);
		if (!answer)
			return false;
		if (json_unpack(answer, "{s:{s:s}}", "result", "TTL", &ttl))
			*member->lease = '\0';
		json_decref(answer);
	}
	if (*lease)
		return true;
	answer = ask(&member->etcd, "lease/grant", json_pack("{s:i}", "TTL", TTL_S), why);
	if (answer && json_unpack(answer, "{s:s}", "ID", &lease))
		refuse(&member->etcd, "it gave no lease", why);
	else if (answer)
		snprintf(member->lease, sizeof(member->lease), "%s", lease);
	json_decref(answer);
	return *member->lease;
}

static void *keep(void *user)
{
	char why[NODES_WHY_MAX], said[NODES_WHY_MAX] = "";
	struct member *member = user;

	for (;;) {
		if (keep_lease(member, why) && enter(member, why))
			snprintf(why, sizeof(why), "registered as '%s' at %s", member->name,
				 member->address);
		if (strcmp(why, said) != 0)
			tool_error("%s", strcpy(said, why));
		sleep(KEEP_ALIVE_S);
	}
	return NULL;
}

/* Return the key's value, in JSON. NULL: no memory. */
static char *value_of(const char *address)
{
	const struct passwd *user = getpwuid(geteuid());
	json_t *node = json_pack("{s:s, s:s, s:s}", "address", address, "user",
				 user ? user->pw_name : "", "version", GPUSHARE_VERSION);
	char *value = json_dumps(node, JSON_COMPACT);

	json_decref(node);
	return value;
}

bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX])
{
	static struct member member;
	pthread_t thread;

	if (!is_name(name))
		return nodes_refuse(
		    why, "'%s' can't be a node's name; --as gives this node another name", name);
	if (!is_address(address))
		return nodes_refuse(why,
				    "the address in an etcd must be tls://HOST:PORT, not '%s'; "
				    "--announce sets that address",
				    address);
	if (!etcd_open(&member.etcd, text, why))
		return false;
	strcpy(member.name, name);
	strcpy(member.address, address);
	member.value = value_of(address);
	return (member.value && !pthread_create(&thread, NULL, keep, &member)) ||
	       refuse(&member.etcd, "out of memory", why);
}

#else
#define WITHOUT \
	"this gpushare was built without libcurl (Debian: libcurl4-openssl-dev), so it can't ask " \
	"an etcd"

bool etcd_read(const char *text, struct nodes *nodes, char why[NODES_WHY_MAX])
{
	(void)text, (void)nodes;
	return nodes_refuse(why, WITHOUT);
}

bool etcd_join(const char *text, const char *name, const char *address, char why[NODES_WHY_MAX])
{
	(void)text, (void)name, (void)address;
	return nodes_refuse(why, WITHOUT);
}
#endif
