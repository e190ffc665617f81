/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of transports: which one gets a socket, and what each row of it must have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/error.h"
#include "net_pair.h"

static tcpx_status answer;
static int asked;

static tcpx_status picky_adopt(int fd, struct net_chan **out_chan)
{
	(void)fd;
	(void)out_chan;
	asked++;
	return answer;
}

static const struct transport_ops picky = {.name = "picky", .adopt = picky_adopt};

static void a_transport_has_one_way(void **state)
{
	const struct transport_ops *one, *other;

	(void)state;
	for (unsigned i = 0; (one = net_transport_at(i)); i++) {
		assert_non_null(one->name);
		assert_int_equal(!one->adopt,
				 one->listen && one->unlisten && one->dial && one->cancel);
		assert_int_equal(!one->adopt,
				 one->listen || one->unlisten || one->dial || one->cancel);
		for (unsigned k = 0; k < i && (other = net_transport_at(k)); k++)
			assert_string_not_equal(one->name, other->name);
	}
	assert_non_null(net_transport_of_offers());
	assert_null(net_transport_of_offers()->adopt);
}

static void a_socket_goes_to_the_first_that_supports_it(void **state)
{
	struct net_chan *chan = NULL;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	net_transport_enrol(&picky);
	assert_ptr_equal(net_transport_at(0), &picky);
	answer = TCPX_ERR_NO_MEMORY; /* an error is the answer: the next is not asked */
	assert_int_equal(net_transport_adopt(fds[0], &chan), TCPX_ERR_NO_MEMORY);
	assert_null(chan);
	answer = TCPX_ERR_UNSUPPORTED;
	assert_int_equal(net_transport_adopt(fds[0], &chan), TCPX_OK);
	assert_int_equal(asked, 2);
	assert_string_equal(chan->ops->name, "tcp");
	chan->ops->close(chan);
	close(fds[1]);
	net_transport_enrol(NULL);
	assert_ptr_not_equal(net_transport_at(0), &picky);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_transport_has_one_way),
		cmocka_unit_test(a_socket_goes_to_the_first_that_supports_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
