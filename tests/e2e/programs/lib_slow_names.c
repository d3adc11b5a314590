// SPDX-License-Identifier: MIT
/* Preloaded: emulates slow name services. Looking up a host's name takes a minute, a numeric
 * address no time; looking up a group's name takes 200 ms. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <grp.h>
#include <netdb.h>
#include <unistd.h>

__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
						       const struct addrinfo *hints,
						       struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
	    (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
		RTLD_NEXT, "getaddrinfo");
	unsigned char numeric[sizeof(struct in6_addr)];

	if (!(hints->ai_flags & AI_NUMERICHOST) && inet_pton(AF_INET, host, numeric) != 1)
		sleep(60);
	return real(host, service, hints, out);
}

__attribute__((visibility("default"))) int getgrnam_r(const char *name, struct group *group,
						      char *room, size_t size, struct group **out)
{
	int (*real)(const char *, struct group *, char *, size_t, struct group **) =
	    (int (*)(const char *, struct group *, char *, size_t, struct group **))dlsym(
		RTLD_NEXT, "getgrnam_r");

	usleep(200000);
	return real(name, group, room, size, out);
}
