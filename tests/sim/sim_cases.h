/* SPDX-License-Identifier: Apache-2.0 */
/* What directed schedules share. */
#ifndef SIM_CASES_H
#define SIM_CASES_H

#include "check.h"
#include "sim.h"

#define SIM_CASE_SEEDS 20 /* the same case with other delays */

void sim_case_of(void (*script)(struct sim *sim), const struct sim_profile *profile,
		 uint64_t seeds);
void sim_case(void (*script)(struct sim *sim), const struct sim_profile *profile);
struct sim_xfer *sim_start(struct sim *sim, int side, enum tcpx_op op, uint64_t bytes,
			   uint32_t segments);
void sim_until(struct sim *sim, bool (*cond)(struct sim *sim, void *arg), void *arg,
	       const char *what);
void sim_wait(struct sim *sim, struct sim_xfer *xfer, tcpx_status status);
bool sim_case_all_up(struct sim *sim, void *arg);
/* A WRITE, a READ, a SEND and its RECV of 40 KiB from each side, all well. */
void sim_case_all_ways(struct sim *sim);
bool sim_case_over(struct sim *sim, void *arg);	 /* arg: a transfer */
bool sim_case_lends(struct sim *sim, void *arg); /* arg: a transfer */

/* The directed case of a script. */
#define CASE(name, profile)                                                                        \
	void case_##name(void *arg)                                                                \
	{                                                                                          \
		(void)arg;                                                                         \
		sim_case(name, profile);                                                           \
	}

/* sim_losses.c */
#define SIM_LOSS_CASE_LIST(X)                                                                      \
	X(fence_with_a_chunk_half_received)                                                        \
	X(loss_right_after_an_acknowledgement)                                                     \
	X(loss_of_the_lane)                                                                        \
	X(refusal_lost_with_its_channel)                                                           \
	X(fence_lost_with_the_control_link)                                                        \
	X(loss_heard_of_by_the_fence_only)                                                         \
	X(last_channel_lost)                                                                       \
	X(cancel_of_a_send_parked_in_a_frame)                                                      \
	X(cancel_of_a_receive_parked_in_a_frame)                                                   \
	X(cancel_within_a_call_waits_for_it)                                                       \
	X(strict_cancel_waits_for_the_peer)                                                        \
	X(cancel_with_a_stopped_peer)                                                              \
	X(receive_cancelled_before_its_message)                                                    \
	X(send_cancelled_after_its_announcement)                                                   \
	X(send_cancelled_in_its_eager_frame)                                                       \
	X(source_deregistered_under_a_read)                                                        \
	X(destination_deregistered_under_a_write)                                                  \
	X(deadline_of_each_kind)

/* sim_ends.c */
#define SIM_END_CASE_LIST(X)                                                                       \
	X(read_has_its_bytes_when_the_source_goes)                                                 \
	X(link_fails_under_a_strict_cancel)                                                        \
	X(link_fails_under_a_commit)                                                               \
	X(flush_of_notifications)                                                                  \
	X(no_memory_to_queue_again)

/* sim_behind.c */
#define SIM_BEHIND_CASE_LIST(X)                                                                    \
	X(notification_leaves_with_its_write)                                                      \
	X(notification_waits_for_the_commit)                                                       \
	X(notification_of_a_refused_write)                                                         \
	X(budget_of_a_dropped_notification)                                                        \
	X(notification_of_a_write_that_is_not_committed)                                           \
	X(notification_of_an_aborted_write)                                                        \
	X(cancel_between_a_write_and_its_notification)                                             \
	X(notification_lost_half_way)                                                              \
	X(notification_lost_in_its_call)                                                           \
	X(channel_lost_under_the_commit)                                                           \
	X(write_and_notification_lost)                                                             \
	X(refused_write_lost_with_its_notification)                                                \
	X(cancelled_notification_lost)                                                             \
	X(rings_without_room_for_two)                                                              \
	X(link_fails_under_a_waiting_notification)

/* sim_fills.c */
#define SIM_FILL_CASE_LIST(X)                                                                      \
	X(writes_and_reads_share_little_room)                                                      \
	X(sends_that_wait_hold_no_room)                                                            \
	X(sends_are_filled_in_their_order)                                                         \
	X(sources_that_cannot_be_read)                                                             \
	X(cancel_within_a_fill_waits_for_it)                                                       \
	X(room_is_taken_back)                                                                      \
	X(slices_of_many_pieces)

/* sim_lends.c */
#define SIM_LEND_CASE_LIST(X)                                                                      \
	X(everything_goes_by_reference)                                                            \
	X(one_chunk_by_reference_at_a_time)                                                        \
	X(messages_by_reference_need_both_sides)                                                   \
	X(cancel_waits_for_the_copies)                                                             \
	X(cancel_waits_for_a_stopped_reader)                                                       \
	X(source_deregistered_under_copies)                                                        \
	X(channel_lost_under_copies)                                                               \
	X(link_fails_under_copies)                                                                 \
	X(copies_that_fail)                                                                        \
	X(refused_by_reference)

/* sim_mails.c */
#define SIM_MAIL_CASE_LIST(X)                                                                      \
	X(transfers_as_messages)                                                                   \
	X(a_write_one_message_at_a_time)                                                           \
	X(one_message_at_a_time)                                                                   \
	X(one_side_streams)                                                                        \
	X(only_messages_are_up)                                                                    \
	X(message_channel_lost)                                                                    \
	X(cancel_waits_for_messages)                                                               \
	X(cancel_ends_with_the_comms)                                                              \
	X(messages_that_do_not_go)                                                                 \
	X(no_channel_of_messages_comes)                                                            \
	X(refused_messages)

/* sim_alone.c */
#define SIM_ALONE_CASE_LIST(X)                                                                     \
	X(read_of_more_than_4_gib_after_a_loss)                                                    \
	X(bulk_transfers_take_turns)                                                               \
	X(chunks_of_filled_sources)                                                                \
	X(small_writes_have_grants)                                                                \
	X(who_rests_keeps_what_the_pool_allows)                                                    \
	X(window_of_chunks_by_reference)                                                           \
	X(lease_of_a_dead_link)                                                                    \
	X(a_thousand_requests_at_once)                                                             \
	X(wrong_calls_are_refused)

#define SIM_CASE_DECLARE(name) void case_##name(void *arg);
SIM_LOSS_CASE_LIST(SIM_CASE_DECLARE)
SIM_END_CASE_LIST(SIM_CASE_DECLARE)
SIM_BEHIND_CASE_LIST(SIM_CASE_DECLARE)
SIM_FILL_CASE_LIST(SIM_CASE_DECLARE)
SIM_LEND_CASE_LIST(SIM_CASE_DECLARE)
SIM_MAIL_CASE_LIST(SIM_CASE_DECLARE)
SIM_ALONE_CASE_LIST(SIM_CASE_DECLARE)
#define SIM_CASE_ROW(name) {#name, case_##name},

#endif
