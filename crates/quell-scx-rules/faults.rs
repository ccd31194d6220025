// Mended faults, put back: in a copy of the header `file`, `now` becomes `then`. For `build.rs` and the tests.

/// One of them.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) now: &'static str,
    pub(crate) then: &'static str,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 7] = [
    Fault {
        name: "a CPU stays idle when the first three in line cannot use it",
        file: "dispatch.h",
        now: "FOR(i, 0, shared.nr_slots) {\n\t\tplace = next_in_line",
        then: "FOR(i, 0, 3) {\n\t\tplace = next_in_line",
    },
    Fault {
        name: "who is displaced looks for no CPU that nobody holds",
        file: "grant.bpf.c",
        now: "\t\ttake_unheld_cpu(p, slot, cpu);",
        then: "\t\treturn;",
    },
    Fault {
        name: "threads that end are held back by a quota",
        file: "quota.h",
        now: "|| t->overdue || (p->flags & PF_EXITING))",
        then: "|| t->overdue)",
    },
    Fault {
        name: "two threads make way for each other while the holder sleeps",
        file: "stay.h",
        now: "cpu_at(&shared, cpu)->stays || holder >= SYSTEM",
        then: "holder >= SYSTEM",
    },
    Fault {
        name: "a server's threads that lose the CPU come back without a choice of it",
        file: "serve.h",
        now: "(enq_flags & SCX_ENQ_WAKEUP) && home == cpu",
        then: "home == cpu",
    },
    Fault {
        name: "a server's timer rings at a time that is over",
        file: "serve.h",
        now: "ends < waits_until || waits_until <= now",
        then: "ends < waits_until",
    },
    Fault {
        name: "who goes to its server counts on as waiting for its workload",
        file: "serve.h",
        now: "\tceases_to_wait(p, t);\n\tt->goes_on = 0;",
        then: "\tt->goes_on = 0;",
    },
];
