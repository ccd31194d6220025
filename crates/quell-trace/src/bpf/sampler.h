/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the sampling program and its loader share. The loader mirrors these in src/sampler/wire.rs and grid.rs. */
#ifndef QUELL_SAMPLER_H
#define QUELL_SAMPLER_H

/* One instant in each of these stretches of time, ns; a power of two. */
#define STRETCH_SHIFT 18

enum record_kind {
	RECORD_WAITED,   /* a watched thread waited on this CPU */
	RECORD_RAN,      /* a watched thread or none ran there */
	RECORD_RAN_OTHER /* a thread that is not watched ran there */
};

/* No workload's: what runs on an idle CPU. */
#define SLOT_IDLE 0xfffe
/* Nor is that: a thread that is not watched. */
#define SLOT_OTHER 0xffff

/* At the instants from `from` to before `to`. */
struct record {
	__u32 from;
	__u32 to;
	__s32 tid;
	__u16 cpu;
	__u16 slot;
	__u32 kind;
	/* Of the process, as in /proc/PID/comm; of RECORD_RAN_OTHER alone. */
	char comm[16];
};

/* A thread to watch. */
struct listed {
	__s32 tid;
	__u16 slot;
	__u16 unused;
};

/* A CPU. Written on that CPU only, except `waiting`. */
struct cpu {
	__u64 calls;     /* of this program */
	__u32 looked;    /* instants up to which it is known what ran */
	__s32 running;   /* who came at the latest switch; 0: none */
	__s32 waiting;   /* watched threads that wait there */
	__u16 slot;      /* of `running` */
	__u8 is_known;   /* are both? */
	__u8 owes;       /* a thread waited and moved on: what ran meanwhile is still to be reported */
	__u8 unused[40]; /* a cache line each */
};

#endif
