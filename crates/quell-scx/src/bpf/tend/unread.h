/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Age of unread data in TCP sockets. Attached when a policy first asks for it.
 *
 * Problem: a thread that is busy leaves requests unread, and its queue shows nothing.
 *
 * Rule: data that comes to an empty socket starts its clock, a read that empties it stops it. The owner of a socket
 * is the latency-critical workload whose thread reads from it.
 *
 * Callers: the tracepoints sk_data_ready, tcp_rcv_space_adjust and inet_sock_set_state.
 *
 * Limits: a socket's first data is missed, and so are UDP and UNIX sockets. 64 sockets with unread data a workload.
 */
#ifndef QUELL_UNREAD_H
#define QUELL_UNREAD_H

#include "lib/state.h"

/* The record of a socket, written under the socket's lock. */
struct inlet {
	__u64 since; /* since when it has unread data; 0: it has none, or there was no place to say so */
	__u64 last;  /* when data came last */
	__u32 slot;  /* the workload that reads from it */
	__u32 place; /* where the workload's table says since when */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct inlet);
} inlets SEC(".maps");

/* The end of the stream counts as a byte, which is not data. */
static __always_inline bool has_unread_data(const struct sock *sk)
{
	const struct tcp_sock *tcp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	__u32 end = sk->sk_shutdown & RCV_SHUTDOWN ? 1 : 0;

	return (__s32)(tcp->rcv_nxt - end - tcp->copied_seq) > 0;
}

/* The lowest bit that is set, of a word in which one is: not every compiler knows this for BPF. */
static __always_inline __u32 lowest_bit(__u64 word)
{
	__u32 at = 0;

	for (__u32 half = 32; half; half /= 2) {
		if (!(word & ((1ULL << half) - 1))) {
			word >>= half;
			at += half;
		}
	}
	return at;
}

#define PLACES_TRIED 4 /* when other CPUs take places at the same time */

static __always_inline void begin_unread(struct inlet *inlet, __u64 since)
{
	struct workload *w = workload_of(inlet->slot);

	for (int i = 0; i < PLACES_TRIED; i++) {
		__u64 free = ~w->unread;

		if (!free)
			return;
		__u32 place = lowest_bit(free);
		__u64 bit = 1ULL << place;

		if (__sync_fetch_and_or(&w->unread, bit) & bit)
			continue;
		*AT(w->unread_since, place, UNREAD_TIMES) = since;
		inlet->since = since;
		inlet->place = place;
		return;
	}
}

/* The place may be another socket's if the loader gave the slot to another workload meanwhile. */
static __always_inline void end_unread(struct inlet *inlet)
{
	struct workload *w = workload_of(inlet->slot);
	__u64 since = inlet->since;

	if (!since)
		return;
	inlet->since = 0;
	if (__sync_val_compare_and_swap(AT(w->unread_since, inlet->place, UNREAD_TIMES), since, 0) == since)
		__sync_fetch_and_and(&w->unread, ~(1ULL << (inlet->place & (UNREAD_TIMES - 1))));
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(data_came, struct sock *sk)
{
	struct inlet *inlet = bpf_sk_storage_get(&inlets, sk, 0, 0);

	if (!inlet || !has_unread_data(sk))
		return 0;
	inlet->last = bpf_ktime_get_ns();
	if (!inlet->since && inlet->slot < SYSTEM)
		begin_unread(inlet, inlet->last);
	return 0;
}

/*
 * Where something is left, it came with the last data or before: its age is said to be that of the last. Every way of
 * reading comes by here.
 */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(data_read, struct sock *sk)
{
	struct thread *t = thread_of(bpf_get_current_task_btf());
	/* If the lock is not owned this is an interrupt of the thread that runs here. */
	__u32 reader = t && sk->sk_lock.owned ? t->slot : SYSTEM;
	bool is_critical = reader < SYSTEM && workload_of(reader)->lc;
	struct inlet *inlet = bpf_sk_storage_get(&inlets, sk, 0, is_critical ? BPF_SK_STORAGE_GET_F_CREATE : 0);

	if (!inlet)
		return 0;
	end_unread(inlet);
	inlet->slot = is_critical ? reader : SYSTEM;
	if (is_critical && has_unread_data(sk))
		begin_unread(inlet, inlet->last ? inlet->last : bpf_ktime_get_ns());
	return 0;
}

/* No thread reads from it any more. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_closes, struct sock *sk, int before, int now)
{
	if (now == TCP_ESTABLISHED || now == TCP_CLOSE_WAIT)
		return 0;
	struct inlet *inlet = bpf_sk_storage_get(&inlets, sk, 0, 0);

	if (inlet)
		end_unread(inlet);
	return 0;
}

#endif
