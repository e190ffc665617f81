/* SPDX-License-Identifier: Apache-2.0 */
/* NVML by a stand-in: which GPUs there are, and libraries that are none. */
#include "unit/unit.h"

#include <stdlib.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/nvml.h"

struct answer {
	tcpx_status status;
	struct sys_nvml_gpu gpus[4];
	unsigned count;
};

static void set(const char *library, const char *gpus, const char *fails)
{
	setenv("TCPX_NVML_LIBRARY", library, 1);
	gpus ? setenv("FAKENVML_GPUS", gpus, 1) : unsetenv("FAKENVML_GPUS");
	fails ? setenv("FAKENVML_FAIL", fails, 1) : unsetenv("FAKENVML_FAIL");
}

static struct answer ask(unsigned max)
{
	struct answer a = {.count = 77};

	a.status = sys_nvml_gpus(a.gpus, max, &a.count);
	return a;
}

/* In a child each: the options are read once in a process. */
static int no_file(void)
{
	set("/none/libnvidia-ml.so.1", NULL, NULL);
	return ask(4).status == TCPX_ERR_UNSUPPORTED &&
	       strstr(error_last()->what, "/none/libnvidia-ml.so.1");
}

static int another_library(void)
{
	set("libc.so.6", NULL, NULL);
	return ask(4).status == TCPX_ERR_UNSUPPORTED && strstr(error_last()->what, "nvmlInit_v2");
}

static void a_library_that_is_none(void **state)
{
	(void)state;
	assert_int_equal(in_child(no_file), 1);
	assert_int_equal(in_child(another_library), 1);
}

static void gpus_have_an_address_and_a_name(void **state)
{
	struct answer a;

	(void)state;
	set(FAKENVML, "00000000:8B:00.0=NVIDIA H100;00010000:04:00.0=-;-=Nowhere;no=No;05:00.0=B",
	    NULL);
	a = ask(4);
	assert_int_equal(a.status, TCPX_OK);
	assert_int_equal(a.count, 3); /* two do not say where they are */
	assert_int_equal(a.gpus[0].pci, 0x8b00);
	assert_string_equal(a.gpus[0].name, "NVIDIA H100");
	assert_int_equal(a.gpus[1].pci, 0x100000000 | 0x400);
	assert_string_equal(a.gpus[1].name, "");
	assert_int_equal(a.gpus[2].pci, 0x500);
	assert_int_equal(ask(2).count, 2);
	set(FAKENVML, "", NULL);
	a = ask(4);
	assert_int_equal(a.status, TCPX_OK);
	assert_int_equal(a.count, 0);
}

static void what_fails_is_named(void **state)
{
	struct answer a;

	(void)state;
	set(FAKENVML, NULL, "init");
	a = ask(4);
	assert_int_equal(a.status, TCPX_ERR_UNSUPPORTED);
	assert_int_equal(a.count, 77);
	assert_non_null(strstr(error_last()->what, "nvmlInit_v2"));
	set(FAKENVML, NULL, "count");
	a = ask(4);
	assert_int_equal(a.status, TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, "nvmlDeviceGetCount_v2"));
	set(FAKENVML, NULL, NULL);
	assert_int_equal(ask(4).count, 2); /* it was shut down in between */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_library_that_is_none), /* before anybody reads the options */
		cmocka_unit_test(gpus_have_an_address_and_a_name),
		cmocka_unit_test(what_fails_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
