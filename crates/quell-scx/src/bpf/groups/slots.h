/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The workload of a thread, and the servers of that workload.
 *
 * Problem: a fork or a move of a process between cgroups changes the workload, and the kernel reports neither in
 * time.
 *
 * Rule: the workload of the nearest ancestor cgroup that is in the loader's table. It is cached in the thread's
 * record, and looked up again when its cgroup's number or the table's generation has changed.
 *
 * Callers: `slot_of`: each operation that needs a thread's workload.
 *
 * Limits: a running thread that is moved belongs to its former workload until it stops or its CPU chooses again.
 */
#ifndef QUELL_SLOTS_H
#define QUELL_SLOTS_H

#include "serve/servers.h"

/* Is there no server for this thread? None for an exiting one: others may wait for its exit. */
static __noinline bool has_no_server(struct task_struct *p, __u32 slot)
{
	int i;

	if (p->flags & PF_EXITING)
		return true;
	FOR(i, 0, shared.nr_cpus) {
		__u32 cpu = i;

		if (cpu >= MAX_CPUS)
			break;
		if (serving_on(cpu)->servers && is_cpu_allowed(p, cpu) && server_of(cpu, slot) != NO_SERVER)
			return false;
	}
	return true;
}

static __always_inline void update_server(struct task_struct *p, struct thread *t)
{
	struct workload *w = workload_of(t->slot);

	t->unserved = t->slot < SYSTEM && w->servers && !w->in_line && !w->on_wake_up && !w->held &&
		      has_no_server(p, t->slot);
	if (t->unserved)
		t->slot = SYSTEM;
}

/* The slot of the nearest ancestor cgroup that belongs to a workload. */
GLOBAL_FUNC __u32 lookup_slot(__u64 address)
{
	int i;

	FOR(i, 0, ANY_DEPTH) {
		struct cgroup *cgroup = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct cgroup));
		__u64 id = cgroup->kn->id;
		__u32 *slot = bpf_map_lookup_elem(&cgroups, &id);

		if (slot)
			return *slot < SYSTEM ? *slot : SYSTEM;
		struct cgroup_subsys_state *parent = cgroup->self.parent;

		if (!parent)
			break;
		address = (__u64)parent->cgroup;
		if (!address)
			break;
	}
	return SYSTEM;
}

/*
 * The thread's workload: remembered, and looked up again when its cgroup or the table changed. Threads of a workload
 * that has servers and nothing else belong to the system where no server is for them.
 */
static __always_inline __u32 slot_of(struct task_struct *p, struct thread *t)
{
	__u64 id = cgroup_number_of(p), address = 0;

	if (t->cgroup != id || t->generation != shared.generation || (servers_on && t->unserved)) {
		t->generation = shared.generation;
		t->cgroup = id;
		/* Read like this it is a number to the verifier, which takes no pointers across this call. */
		BPF_CORE_READ_INTO(&address, p, cgroups, dfl_cgrp);
		t->slot = lookup_slot(address);
		if (together_on)
			follow_leader(t);
		if (servers_on)
			update_server(p, t);
	}
	return t->slot;
}

#endif
