/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of GPU memory that the driver exports or does not; drivers that cannot be asked. */
#include "cuda_rig.h"

#include <dirent.h>

#include "mem/cuda_cover.h"

#define PAGE 4096u
#define SMALL 8192u	 /* the stand-in begins it inside a page, */
#define WHOLE (2u << 20) /* and this on one */
#define CALL "cuMemGetHandleForAddressRange"

static struct sys_cuda_gpu *gpu;

static tcpx_status ask(const struct sys_cuda_gpu *of, cuda_ptr at, uint64_t bytes)
{
	struct sys_cuda_scope scope;
	tcpx_status status;

	assert_int_equal(sys_cuda_push(of, &scope), TCPX_OK);
	status = mem_cuda_cover(of, at, bytes);
	sys_cuda_pop(&scope);
	return status;
}

static cuda_ptr page_of(cuda_ptr at)
{
	return at & ~(cuda_ptr)(PAGE - 1);
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void pages_of_an_allocation_are_exported(void **state)
{
	cuda_ptr ptr = rig_alloc(0, WHOLE);
	unsigned before = descriptors();

	(void)state;
	assert_int_equal(ask(gpu, ptr, WHOLE), TCPX_OK);
	assert_int_equal(ask(gpu, ptr + PAGE, PAGE), TCPX_OK);
	assert_int_equal(ask(gpu, ptr + PAGE, WHOLE), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, CALL ": CUDA_ERROR_INVALID_VALUE"));
	assert_non_null(strstr(error_last()->next, "64 KiB"));
	assert_int_equal(descriptors(), before);
	rig_free(0, ptr);
}

static void pages_outside_are_not(void **state)
{
	cuda_ptr ptr = rig_alloc(0, SMALL);
	char place[64];

	(void)state;
	assert_int_not_equal(ptr % PAGE, 0);
	assert_int_equal(ask(gpu, page_of(ptr), SMALL + PAGE), TCPX_ERR_UNSUPPORTED);
	snprintf(place, sizeof(place), "%u bytes of pages at %#llx", SMALL + PAGE,
		 (unsigned long long)page_of(ptr));
	assert_non_null(strstr(error_last()->what, place));
	rig_free(0, ptr);
}

static void a_failure_is_told(void **state)
{
	cuda_ptr ptr = rig_alloc(0, WHOLE);

	(void)state;
	fake.fail_call(CALL, 0, CUDA_ERR_NOT_SUPPORTED);
	assert_int_equal(ask(gpu, ptr, WHOLE), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, CALL ": CUDA_ERROR_NOT_SUPPORTED"));
	fake.fail_call(CALL, 0, 0);
	assert_int_equal(ask(gpu, ptr, WHOLE), TCPX_OK);
	rig_free(0, ptr);
}

/* A driver that is older than the call: pages inside of an allocation are relied on. */
static void an_old_driver_is_not_asked(void **state)
{
	cuda_ptr small = rig_alloc(0, SMALL), whole = rig_alloc(0, WHOLE);
	struct sys_cuda old_api = *api;
	struct sys_cuda_gpu old = *gpu;
	uint64_t calls = fake.calls(CALL);

	(void)state;
	old_api.mem_export = NULL;
	old.api = &old_api;
	assert_int_equal(ask(&old, whole, WHOLE), TCPX_OK);
	assert_int_equal(ask(&old, whole + PAGE, PAGE), TCPX_OK);
	assert_int_equal(ask(&old, whole, WHOLE + PAGE), TCPX_ERR_UNSUPPORTED);
	assert_int_equal(ask(&old, page_of(small), SMALL + PAGE), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, "reach outside the allocation"));
	assert_int_equal(fake.calls(CALL), calls);
	rig_free(0, small);
	rig_free(0, whole);
}

static cuda_result says_ok(void *out, cuda_ptr ptr, size_t bytes, int type,
			   unsigned long long flags)
{
	(void)out;
	(void)ptr;
	(void)bytes;
	(void)type;
	(void)flags;
	return CUDA_OK;
}

static cuda_result exports_nothing(int *out, int attribute, cuda_device device)
{
	(void)device;
	assert_int_equal(attribute, CUDA_DEVICE_DMABUF_SUPPORTED);
	*out = 0;
	return CUDA_OK;
}

/* Descriptor 0 is not taken for one that the driver gave. */
static void a_success_without_a_descriptor_is_none(void **state)
{
	cuda_ptr ptr = rig_alloc(0, WHOLE);
	struct sys_cuda odd_api = *api;
	struct sys_cuda_gpu odd = *gpu;
	unsigned before = descriptors();

	(void)state;
	odd_api.mem_export = says_ok;
	odd_api.device_attribute = exports_nothing;
	odd.api = &odd_api;
	assert_int_equal(ask(&odd, ptr, WHOLE), TCPX_ERR_UNSUPPORTED);
	assert_non_null(strstr(error_last()->what, "gave no descriptor"));
	assert_non_null(strstr(error_last()->next, "open kernel modules"));
	assert_int_equal(descriptors(), before);
	rig_free(0, ptr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_of_an_allocation_are_exported),
		cmocka_unit_test(pages_outside_are_not),
		cmocka_unit_test(a_failure_is_told),
		cmocka_unit_test(an_old_driver_is_not_asked),
		cmocka_unit_test(a_success_without_a_descriptor_is_none),
	};
	int rc;

	setenv("FAKECUDA_COVER_STRICT", "1", 1);
	if (rig_open() || sys_cuda_get(0, &gpu))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	sys_cuda_put(gpu);
	return rc;
}
