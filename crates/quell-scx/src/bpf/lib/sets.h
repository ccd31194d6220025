/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of CPUs and of slots, as bits.
 *
 * Problem: a search for one of a few among a thousand must not visit all.
 *
 * Rule: a bit each, and a summary word in which a bit says that a word is not empty: a search goes from one member to
 * the next. CPUs and the loader write concurrently, atomically. A writer that empties a word clears its bit in the
 * summary, then reads the word again: another CPU may have filled it meanwhile, and found the summary's bit still
 * set.
 *
 * Callers: `place/kinds.h`, `hold/waiting.h`, `place/look.h`; AT, cpu_at and workload_at everywhere.
 *
 * Limits: a concurrent change may be missed. A reader verifies what it finds, and a writer searches again afterwards.
 */
#ifndef QUELL_SETS_H
#define QUELL_SETS_H

#include "lib/env.h"
#include "lib/grant.h"

/* The kernel's verifier wants to see that every index is within its table: at the place where it is used. */
#define AT(table, i, size)                       \
	({                                       \
		__u32 index_ = (i);              \
		OPAQUE(index_);                  \
		&(table)[index_ & ((size) - 1)]; \
	})
#define cpu_at(s, i) AT((s)->cpu, i, MAX_CPUS)
#define workload_at(s, i) AT((s)->workload, i, MAX_SLOTS)

/* The lowest bit that is set; there is one. */
static __always_inline __u32 first_bit(__u64 word)
{
	/* By de Bruijn: the bits that follow each other in this number are different for each place. */
	static const __u8 place[64] = {
		0,  1,	48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,	62, 55, 59, 36, 53, 51,
		43, 22, 45, 39, 33, 30, 24, 18, 12, 5,	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21,
		44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
	};

	return place[((word & -word) * 0x03f79d71b4cb0a89ULL) >> 58];
}

/* All members of the set, from the lowest on: `at` is one after the other. One that is added meanwhile may be missed. */
#define EACH_IN(set, at)                                                                                      \
	for (__u64 words_ = (set)->words, bits_ = 0; words_ && CAN_LOOP; words_ &= words_ - 1)                 \
		for (bits_ = *AT((set)->word, first_bit(words_), SET_WORDS); bits_ && CAN_LOOP; bits_ &= bits_ - 1) \
			if ((at = first_bit(words_) * 64 + first_bit(bits_)) < MAX_CPUS)

static __always_inline bool set_contains(const struct set *set, __u32 at)
{
	return *AT(set->word, at / 64, SET_WORDS) >> at % 64 & 1;
}

static __always_inline void set_add(struct set *set, __u32 at)
{
	__u64 *word = AT(set->word, at / 64, SET_WORDS), bit = 1ULL << at % 64, summary = 1ULL << (at / 64 & (SET_WORDS - 1));

	if (!(*(volatile __u64 *)word & bit))
		__sync_fetch_and_or(word, bit);
	if (!(*(volatile __u64 *)&set->words & summary))
		__sync_fetch_and_or(&set->words, summary);
}

static __always_inline void set_remove(struct set *set, __u32 at)
{
	__u64 *word = AT(set->word, at / 64, SET_WORDS), bit = 1ULL << at % 64, summary = 1ULL << (at / 64 & (SET_WORDS - 1));

	if (!(*(volatile __u64 *)word & bit) || __sync_fetch_and_and(word, ~bit) & ~bit)
		return;
	__sync_fetch_and_and(&set->words, ~summary);
	if (*(volatile __u64 *)word)
		__sync_fetch_and_or(&set->words, summary);
}

#endif
