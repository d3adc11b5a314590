// SPDX-License-Identifier: MIT
/* Preloaded: emulates a name server that doesn't answer. Looking up a name takes a minute, and a
 * numeric address no time. */
#include <arpa/inet.h>
#include <dlfcn.h>
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
