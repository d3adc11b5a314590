/* SPDX-License-Identifier: MIT */
/* A program that never uses CUDA: what a preload adds to it is start-up and nothing else. */
int main(void)
{
	return 0;
}
