/* SPDX-License-Identifier: Apache-2.0 */
/* A library that has some functions of a CUDA driver and lacks the others. */
int cuDriverGetVersion(int *out);
int cuDriverGetVersion(int *out)
{
	*out = 12000;
	return 0;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	return (int)flags;
}
