/* SPDX-License-Identifier: MIT */
#include "address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

bool nodes_refuse(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why ? NODES_WHY_MAX : 0, format, arguments);
	va_end(arguments);
	return false;
}

bool address_parse(const char *text, struct address *out)
{
	const char *host = text + strlen("tls://"), *port = strrchr(text, ':');
	size_t length;

	*out = (struct address){.tls = !strncmp(text, "tls://", 6)};
	if ((!out->tls && strncmp(text, "tcp://", 6) != 0) || strlen(text) >= ADDRESS_MAX)
		return false;
	if (!port || port <= host || !port[1] || strspn(port + 1, "0123456789") != strlen(port + 1))
		return false;
	if (strlen(port + 1) > 5 || atoi(port + 1) > UINT16_MAX)
		return false;
	strcpy(out->text, text);
	length = (size_t)(port - host);
	if (*host == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	memcpy(out->host, host, length);
	return length != 0;
}

void address_limit_look_ups(void)
{
	setenv("RES_OPTIONS", "timeout:2 attempts:2", 0); /* for each of up to 3 name servers */
}

bool address_look_up(struct address *address, char why[NODES_WHY_MAX])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const char *port = strrchr(address->text, ':') + 1;
	struct addrinfo *found = NULL, *one;
	int error = getaddrinfo(address->host, port, &hints, &found);

	if (error || !found)
		return nodes_refuse(why, "%s: %s", address->text, gai_strerror(error));
	/* Only one address is tried. Prefer IPv4, because a node listens on it by default. */
	for (one = found; one && one->ai_family != AF_INET;)
		one = one->ai_next;
	if (!one)
		one = found;
	memcpy(&address->at, one->ai_addr, one->ai_addrlen);
	address->at_size = one->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

bool address_is_of(const char *host, const char *interface)
{
	struct ifaddrs *all, *one;
	char its[NI_MAXHOST];
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (one = all; one && !found; one = one->ifa_next) {
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
		socklen_t size =
		    family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

		if ((family == AF_INET || family == AF_INET6) && !strcmp(one->ifa_name, interface))
			found = !getnameinfo(one->ifa_addr, size, its, sizeof(its), NULL, 0,
					     NI_NUMERICHOST) &&
				!strcmp(its, host);
	}
	freeifaddrs(all);
	return found;
}

bool nodes_folder(char out[PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && *config == '/')
		return snprintf(out, PATH_MAX, "%s/gpushare", config) < PATH_MAX;
	return home && snprintf(out, PATH_MAX, "%s/.config/gpushare", home) < PATH_MAX;
}

bool nodes_file(const char *folder, const char *name, mode_t others, char out_path[PATH_MAX],
		char why[NODES_WHY_MAX])
{
	struct stat found = {.st_mode = 0};
	char standard[PATH_MAX] = "";

	if (!*folder && nodes_folder(standard))
		folder = standard;
	if (!*folder)
		nodes_refuse(why, "HOME is not set; --tls DIR says where ca.pem and node.pem are");
	else if (snprintf(out_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
		nodes_refuse(why, "%.4000s: the path is too long", folder);
	else if (stat(out_path, &found))
		nodes_refuse(why, "%.4000s: %s", out_path, strerror(errno));
	else if (found.st_mode & others)
		nodes_refuse(why, "%.4000s: %s", out_path,
			     others & 044 ? "others have access to it; 'chmod 600' it"
					  : "others may change it; 'chmod go-w' it");
	if (!found.st_mode)
		*out_path = '\0';
	return !(found.st_mode & others);
}

bool nodes_add(struct nodes *nodes, const char *name, const char *address)
{
	struct node *node = &nodes->list[nodes->count];

	if (nodes->count == NODES_MAX || strlen(name) >= NODE_NAME_MAX || strpbrk(name, ":/*?[") ||
	    !address_parse(address, &node->address))
		return false;
	strcpy(node->name, name);
	nodes->count++;
	return true;
}

/* Add the node of a line, if the line isn't empty. False: it isn't a valid name and address. */
static bool add_line(struct nodes *nodes, char *line)
{
	char name[NODE_NAME_MAX + 1], address[ADDRESS_MAX + 1], more;
	int words;

	line[strcspn(line, "#")] = '\0';
	/* read one byte more than is allowed, so that nodes_add() refuses a longer word */
	words = sscanf(line, "%64s %288s %c", name, address, &more);
	return words <= 0 || (words == 2 && nodes_add(nodes, name, address));
}

static bool read_file(struct nodes *out, const char *path, char why[NODES_WHY_MAX])
{
	_cleanup_free_ char *line = NULL;
	FILE *file = fopen(path, "re");
	bool good = file, valid = true;
	size_t room = 0;
	int number = 0;

	for (; good && valid && getline(&line, &room, file) > 0; number++)
		valid = add_line(out, line);
	good = good && !ferror(file);
	if (!good)
		nodes_refuse(
		    why,
		    "the file of nodes, %.4000s, can't be read: %s; GPUSHARE_NODES=FILE names "
		    "another",
		    path, strerror(errno));
	else if (!valid)
		nodes_refuse(why,
			     "%.4000s:%d: a line is 'name address', the address tls://HOST:PORT or "
			     "tcp://HOST:PORT, and there are %d lines at most",
			     path, number, NODES_MAX);
	if (file)
		fclose(file);
	return good && valid;
}

bool nodes_read(struct nodes *out, char why[NODES_WHY_MAX])
{
	char file[PATH_MAX + sizeof("/nodes")], folder[PATH_MAX];
	const char *given = getenv("GPUSHARE_NODES"), *from = given && *given ? given : file;

	address_limit_look_ups();
	*out = (struct nodes){.count = 0};
	if (from == file) {
		if (!nodes_folder(folder))
			return nodes_refuse(
			    why, "no file of nodes: neither GPUSHARE_NODES nor HOME is set");
		sprintf(file, "%s/nodes", folder);
	}
	out->list = calloc(NODES_MAX + 1, sizeof(*out->list));
	if (!out->list)
		return nodes_refuse(why, "no memory for the list of nodes");
	if (etcd_is(from) ? etcd_read(from, out, why) : read_file(out, from, why))
		return true;
	nodes_free(out);
	return false;
}

void nodes_free(struct nodes *nodes)
{
	free(nodes->list);
	*nodes = (struct nodes){.count = 0};
}

bool nodes_find(const char *which, struct node *out, char why[NODES_WHY_MAX])
{
	struct nodes nodes;

	if (address_parse(which, &out->address)) {
		snprintf(out->name, sizeof(out->name), "%.63s", which);
		return true;
	}
	if (!nodes_read(&nodes, why))
		return false;
	for (size_t i = 0; i < nodes.count; i++)
		if (!strcmp(nodes.list[i].name, which)) {
			*out = nodes.list[i];
			nodes_free(&nodes);
			return true;
		}
	nodes_free(&nodes);
	return nodes_refuse(
	    why, "there is no node '%.64s' in the list of nodes, which 'gpushare nodes' shows",
	    which);
}
