// SPDX-License-Identifier: MIT
/* UCX's libucp as far as it is installed, but of version 1.99: for GPUSHARE_UCX. */
void ucp_get_version(unsigned int *major, unsigned int *minor, unsigned int *release);
__attribute__((visibility("default"))) void
ucp_get_version(unsigned int *major, unsigned int *minor, unsigned int *release)
{
	*major = 1;
	*minor = 99;
	*release = 0;
}
