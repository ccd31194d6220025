//! The table of signals. A signal is a line here and a sensor that fills it; its column, copying, clearing, the record,
//! the API, metrics and the page of signals follow.

/// Hands the table to a macro: signals of workloads, of CPUs, of the machine, of threads, and those whose columns have a
/// form of their own. A line: help, `Signal = column: type, "name", unit, kind, "what it costs";`.
macro_rules! signal_table {
    ($with:ident) => {
        $with! {
            workload {
                /// How long the oldest waiting item has waited.
                QueueingDelay = queueing_delay: Nanos, "queueing delay", Nanoseconds, Momentary,
                    "tracing of every switch, or Quell's own scheduler, which knows it";
                /// CPU time used since it attached.
                RunTime = run_time: Nanos, "run time", Nanoseconds, Total, "a read a cgroup, or a thread";
                /// CPU time that the cgroups of a latency-critical workload used since an arbitrary start, that of ended processes too.
                CriticalRunTime = critical_run_time: Nanos, "run time of latency-critical cgroups", Nanoseconds, Total,
                    "nothing beside latency-critical threads";
                /// Time its threads were runnable but not running, since it attached.
                RunDelay = run_delay: Nanos, "run delay", Nanoseconds, Total, "a read a thread";
                /// Of the run delay, the part that others took: other workloads, the kernel, unmanaged work, interrupts, the hypervisor.
                WaitedForOthers = waited_for_others: Nanos, "time waited for others", Nanoseconds, Total,
                    "a second of tracing now and then, within a bound";
                /// Number of threads.
                ThreadCount = thread_count: u32, "thread count", Count, Momentary, "known from each scan";
                /// The SLO's quantile of latency, as the application or a load generator reports it.
                Latency = latency: Nanos, "application latency", Nanoseconds, Momentary, "the reporter's";
                /// Requests answered per second, as the application or a load generator reports them.
                RequestRate = request_rate: f64, "request rate", PerSecond, Momentary, "the reporter's";
                /// LLC hits per LLC reference.
                LlcHitRatio = llc_hit_ratio: f64, "LLC hit ratio", Ratio, Momentary,
                    "two counters a CPU, read at each switch";
                /// Memory bandwidth used.
                WorkloadBandwidth = memory_bandwidth: BytesPerSecond, "memory bandwidth per workload", BytesPerSecond,
                    Momentary, "a counter a CPU, read at each switch; or a monitoring group a workload";
                /// Instructions retired per second.
                InstructionRate = instruction_rate: f64, "instruction rate", PerSecond, Momentary,
                    "a counter a CPU, read at each switch";
                /// CPU cycles used per second.
                CycleRate = cycle_rate: f64, "cycle rate", PerSecond, Momentary,
                    "a counter a CPU, read at each switch";
                /// Memory accesses per second that found their core's queue of outstanding ones full.
                BufferFullRate = buffer_full_rate: f64, "memory-buffer-full events", PerSecond, Momentary,
                    "a counter a CPU, read at each switch";
                /// Wake-ups of its threads out of soft interrupts per second: packets and timers that came for it.
                SoftInterrupts = soft_interrupt_rate: f64, "soft interrupts", PerSecond, Momentary,
                    "tracing of every wake-up";
                /// How long the oldest unread data of its sockets has waited; of latency-critical ones.
                UnreadDelay = unread_delay: Nanos, "age of unread data in sockets", Nanoseconds, Momentary,
                    "a look at each packet that arrives";
            }
            cpu {
                /// When the request that it works on began.
                RequestStart = request_start: Nanos, "request start", Nanoseconds, Momentary,
                    "Quell's own scheduler alone knows it, at no cost";
                /// LLC misses since an arbitrary start; sampled on request.
                LlcMisses = llc_misses: u64, "LLC misses", Count, Total, "a counter a CPU, read on request";
            }
            machine {
                /// Memory bandwidth in use.
                MemoryBandwidth = memory_bandwidth: BytesPerSecond, "memory bandwidth", BytesPerSecond, Momentary,
                    "the memory controllers' counters, or resctrl's";
                /// How many times its quiet latency memory takes to answer.
                MemorySlowdown = memory_slowdown: f64, "memory slowdown", Times, Momentary,
                    "64 memory accesses a millisecond";
                /// CPU time that attribution (what workloads wait for) used.
                AttributionCost = attribution_cost: Nanos, "cost of attribution", Nanoseconds, Total, "none";
                /// CPUs that a wake-up took from another workload, by Quell's scheduler.
                CpusTaken = cpus_taken: u64, "CPUs taken", Count, Total, "a read a CPU, ten times a second";
                /// Times a best-effort thread stayed on its CPU behind a real-time thread.
                Stayed = threads_stayed: u64, "threads that stayed", Count, Total, "a read a CPU, ten times a second";
                /// Times a best-effort thread stayed on its CPU behind a latency-critical thread.
                MadeWay = threads_made_way: u64, "threads that made way", Count, Total,
                    "a read a CPU, ten times a second";
                /// Times a thread that had stayed or made way went to a queue all the same.
                MadeWayInVain = made_way_in_vain: u64, "made way in vain", Count, Total,
                    "a read a CPU, ten times a second";
                /// Times a thread was fetched that had stayed behind a real-time thread.
                Fetched = threads_fetched: u64, "threads fetched", Count, Total, "a read, ten times a second";
                /// Turns given to threads that starved.
                StarvingTurns = starving_turns: u64, "starving turns", Count, Total,
                    "a read a CPU, ten times a second";
                /// Times a cgroup used up its quota (cpu.max) under Quell's scheduler.
                Throttled = cgroups_throttled: u64, "cgroups throttled", Count, Total,
                    "a read a CPU, ten times a second";
                /// Times a thread came and its workload got no CPU by the rules.
                CpusRefused = cpus_refused: u64, "CPUs refused", Count, Total, "a read a CPU, ten times a second";
                /// Times a thread that woke up took the CPU of one of its own queue, where workloads hold CPUs as one.
                Overtaken = threads_overtaken: u64, "threads overtaken", Count, Total,
                    "a read a CPU, ten times a second";
                /// Turns of others while a server had work and budget.
                TurnsBesideServers = turns_beside_servers: u64, "turns beside servers", Count, Total,
                    "a read a CPU, ten times a second";
                /// Times a thread that stopped inside the kernel went on there, as latency-critical work waited in the kernel.
                Passed = threads_passed: u64, "threads let pass", Count, Total, "a read a CPU, ten times a second";
            }
            thread {
                /// Times it lost its CPU although it could have gone on, since it is traced.
                Preemptions = preemptions: u64, "preemptions", Count, Total, "tracing of every switch";
                /// Times it waited longer for a CPU after a wake-up than its bound, 4 ms unless configured otherwise.
                LateStarts = late_starts: u64, "late starts", Count, Total, "tracing of every switch";
            }
            other {
                /// Which workload runs on each CPU.
                Holder, "workload on CPU", Cpu, "a read a thread, or Quell's own scheduler, which knows it";
                /// State, CPU, run time, run delay and scheduling class of each thread.
                Threads, "threads", Thread, "two reads a thread";
                /// The same of the threads of latency-critical workloads; state, CPU and class may be a second old. A host
                /// may leave all other threads out.
                CriticalThreads, "latency-critical threads", Thread, "a read a workload, and a thread of those that ran";
                /// Who woke each thread that is wanted, and how often.
                WakeUps, "wake-ups and by whom", Edge, "tracing of every wake-up";
            }
        }
    };
}

pub(crate) use signal_table;
