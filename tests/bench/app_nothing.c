/* SPDX-License-Identifier: MIT */
/* A program that never uses CUDA: a preload can only add to its start-up. */
int main(void)
{
	return 0;
}
