// Fixed faults, put back: in a copy of the header `file`, a path below the BPF program's folder, `now` becomes `then`. For `build.rs` and the tests.

/// One of them.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) now: &'static str,
    pub(crate) then: &'static str,
    /// It is looked for from this seed on: rare ones are found late otherwise.
    #[allow(dead_code)] // The build script reads no seeds.
    pub(crate) from: u64,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 12] = [
    Fault {
        name: "a CPU stays idle when the first three in line cannot use it",
        file: "hold/dispatch.h",
        now: "FOR(i, 0, shared.nr_slots) {\n\t\tplace = next_in_line",
        then: "FOR(i, 0, 3) {\n\t\tplace = next_in_line",
        from: 1,
    },
    Fault {
        name: "who is displaced looks for no CPU that no one holds",
        file: "grant.bpf.c",
        now: "\t\ttake_unheld_cpu(p, slot, cpu);",
        then: "\t\treturn;",
        from: 1,
    },
    Fault {
        name: "threads that end are held back by a quota",
        file: "groups/quota.h",
        now: "|| t->overdue || (p->flags & PF_EXITING))",
        then: "|| t->overdue)",
        from: 1,
    },
    Fault {
        name: "two threads make way for each other while the holder sleeps",
        file: "hold/keep.h",
        now: "cpu_at(&shared, cpu)->kept || holder >= SYSTEM",
        then: "holder >= SYSTEM",
        from: 1,
    },
    Fault {
        name: "a server's threads that lose the CPU come back without a choice of it",
        file: "serve/serve.h",
        now: "(enq_flags & SCX_ENQ_WAKEUP) && home == cpu",
        then: "home == cpu",
        from: 1,
    },
    Fault {
        name: "a server's timer rings at a time that is over",
        file: "serve/serve.h",
        now: "ends < waits_until || waits_until <= now",
        then: "ends < waits_until",
        from: 1,
    },
    Fault {
        name: "who goes to its server counts on as waiting for its workload",
        file: "serve/serve.h",
        now: "\tend_wait(p, t);\n\tt->was_runnable = 0;",
        then: "\tt->was_runnable = 0;",
        from: 1,
    },
    Fault {
        name: "a turn beside a server goes on with the next thread of the CPU's own queue",
        file: "serve/serve.h",
        now: "return v->turn_until > now;",
        then: "return v->turn_until > 0;",
        from: 4_795,
    },
    Fault {
        name: "the holder waits behind a thread that was put into the CPU's own queue, beside an idle CPU",
        file: "hold/dispatch.h",
        now: "if (holder < SYSTEM && has_waiters(workload_of(holder)) && has_free_cpu() && has_idle_cpu())",
        then: "if (false)",
        from: 7_485,
    },
    Fault {
        name: "a CPU that goes offline kicks itself as the last thing that it does",
        file: "grant.bpf.c",
        now: "if (!c->online)\n\t\treturn;\n\tif ((servers_on",
        then: "if ((servers_on",
        from: 1,
    },
    Fault {
        name: "a thread begins to wait and another workload counts as alone",
        file: "queue/queues.h",
        now: "\t\tchange_line();",
        then: "\t\tzero = zero;",
        from: 1,
    },
    Fault {
        name: "a CPU goes idle while one of the system's threads waits that may run anywhere",
        file: "queue/numbers.h",
        now: "return number == SYSTEM ||",
        then: "return false &&",
        from: 1,
    },
];
