// SPDX-License-Identifier: MIT
/* A library unrelated to the driver, with function names that begin like the driver's. */
int cublasCreate(void);
int curl_easy_init(void);
int cuMemAlloc_v3(void);
int cu(void);

int cublasCreate(void)
{
	return 1;
}

int curl_easy_init(void)
{
	return 2;
}

int cuMemAlloc_v3(void)
{
	return 3;
}

int cu(void)
{
	return 4;
}
