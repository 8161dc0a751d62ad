// SPDX-License-Identifier: Apache-2.0
//
// An entry is the name of a segment, its sizes and its ids, in a ring.  Positions in a ring only
// grow; what was written `ring_size` words ago is gone:
//
//     ring    ... old | being written | old ....        written: all words ever, with those being written
//     slot    [ some bits of the name | ring | position ]
//
// A writer first says how far it will write, then writes, then lets a slot point to it.  A reader
// copies an entry and then looks how far the writer is: if that is at most a ring beyond the
// entry's beginning, nothing of it was overwritten before the copy was made.  Stores are release
// and loads acquire, which keeps that order.  Slots are stored without regard to others: one that
// gets lost was only a memory.

#include "tokenizer/bpe/memo.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    segment_min = 512,   // bytes; the next cut from there on ends a segment
    batch_max = 16,      // segments that are named ahead, so that memory is there when it is needed
    entry_id_max = 4096, // a segment with more ids is not remembered
    head_words = 3,      // name, and sizes
    bucket_slots = 8,    // a cache line
    line_words = 8,
    line_size = line_words * 8,
    index_share =
        16, // of memory: four slots for an entry of 512 bytes, so that few buckets are full
    ring_words_min = 64,
    known_discount = 8, // known bytes cost so much less than others
    position_bits = 40,
    ring_bits = 10,
    tag_bits = 14,
    absorb_rounds = 1, // SipHash-1-3
    end_rounds = 3,
};
_Static_assert(position_bits + ring_bits + tag_bits == 64, "a slot is a word");

static const uint64_t position_mask = (UINT64_C(1) << position_bits) - 1;

struct word {
    _Atomic uint64_t value;
};

struct ring {
    struct word *words; // never changes
    // Written by the thread whose ring it is, read by all.
    struct {
        _Alignas(line_size) struct word written;
    } shared;
};

struct memo {
    struct siphash_secret secret;
    uint64_t ring_size; // words
    uint32_t ring_count;
    uint32_t bucket_count;
    uint32_t id_max;
    struct word *slots; // written and read by all
    struct ring rings[];
};

struct segment {
    size_t begin;
    size_t end;
    bool is_last;
    bool is_open; // there is no place to cut where it has to end
    struct siphash_wide name;
};

// A test of races has all loads and stores give way to other threads now and then.
#ifdef MEMO_PAUSES
void memo_pause(void);
#else
static inline void memo_pause(void)
{
}
#endif

static uint64_t load(const struct word *word)
{
    memo_pause();
    return atomic_load_explicit(&word->value, memory_order_acquire);
}

static void store(struct word *word, uint64_t value)
{
    memo_pause();
    atomic_store_explicit(&word->value, value, memory_order_release);
}

struct memo *memo_create(const struct memo_options *options)
{
    ASSERT(options->thread_count >= 1 && options->thread_count <= 1 << ring_bits);
    size_t fixed = sizeof(struct memo) + options->thread_count * sizeof(struct ring);
    size_t ring_min = ring_words_min * sizeof(uint64_t);
    if (options->memory < fixed + line_size + options->thread_count * ring_min) {
        return NULL;
    }
    size_t left = options->memory - fixed;
    size_t bucket_count = left / index_share / line_size + 1;
    bucket_count = bucket_count < UINT32_MAX ? bucket_count : UINT32_MAX;
    size_t ring_lines = (left / line_size - bucket_count) / options->thread_count;
    size_t all = fixed + (bucket_count + options->thread_count * ring_lines) * line_size;
    struct memo *memo = aligned_alloc(line_size, all);
    if (memo == NULL) {
        return NULL;
    }
    uint64_t ring_size = ring_lines * line_words;
    uint64_t id_max = 2 * (ring_size / 4 - head_words);
    *memo = (struct memo){
        .secret = options->secret,
        .ring_size = ring_size,
        .ring_count = options->thread_count,
        .bucket_count = (uint32_t)bucket_count,
        .id_max = id_max < entry_id_max ? (uint32_t)id_max : entry_id_max,
        .slots = (struct word *)(void *)((char *)memo + fixed),
    };
    for (size_t i = 0; i < bucket_count * bucket_slots; i++) {
        atomic_init(&memo->slots[i].value, 0);
    }
    struct word *words = memo->slots + bucket_count * bucket_slots;
    for (uint32_t i = 0; i < memo->ring_count; i++) {
        memo->rings[i].words = words + i * ring_size;
        // As if two rings had been written, so that an empty slot points to what is gone.
        atomic_init(&memo->rings[i].shared.written.value, 2 * ring_size);
    }
    return memo;
}

void memo_destroy(struct memo **memo)
{
    free(*memo);
    *memo = NULL;
}

static struct word *bucket_of(const struct memo *memo, const struct siphash_wide *name)
{
    uint64_t bucket = (name->words[0] >> 32) * memo->bucket_count >> 32;
    return &memo->slots[bucket * bucket_slots];
}

static uint64_t tag_of(const struct siphash_wide *name)
{
    return name->words[1] >> (64 - tag_bits);
}

static bool has_tag(uint64_t slot, uint64_t tag)
{
    return slot >> (64 - tag_bits) == tag;
}

// Where a slot points to.
struct place {
    const struct ring *ring;
    uint64_t position;
    uint64_t age;    // words written since it was begun
    uint64_t offset; // in the ring
};

// False when that is gone.
static bool find_place(const struct memo *memo, uint64_t slot, struct place *out)
{
    uint64_t number = slot >> position_bits & ((1 << ring_bits) - 1);
    if (number >= memo->ring_count) {
        return false;
    }
    const struct ring *ring = &memo->rings[number];
    uint64_t written = load(&ring->shared.written);
    uint64_t age = (written - slot) & position_mask;
    if (age < head_words || age > memo->ring_size) {
        return false;
    }
    uint64_t offset = (written - age) % memo->ring_size;
    *out = (struct place){ring, written - age, age, offset};
    return offset + head_words <= memo->ring_size;
}

static bool is_named(const struct place *place, const struct siphash_wide *name)
{
    const struct word *words = place->ring->words + place->offset;
    return load(&words[0]) == name->words[0] && load(&words[1]) == name->words[1];
}

// Copies the ids of the entry at a place, if it is the segment's.  False when it is not, or no
// more.
static bool copy_entry(const struct memo_task *task, const struct segment *segment,
                       const struct place *place, size_t *count)
{
    const struct memo *memo = task->memo;
    const struct word *words = place->ring->words + place->offset;
    uint64_t sizes = load(&words[2]);
    uint64_t id_count = sizes & UINT32_MAX;
    uint64_t word_count = head_words + (id_count + 1) / 2;
    if (!is_named(place, &segment->name) || sizes >> 32 != segment->end - segment->begin ||
        id_count > memo->id_max || word_count > place->age ||
        place->offset + word_count > memo->ring_size || id_count > task->capacity - task->count) {
        return false;
    }
    uint32_t *ids = task->ids + task->count;
    for (uint64_t i = 0; i < id_count / 2; i++) {
        uint64_t pair = load(&words[head_words + i]);
        ids[2 * i] = (uint32_t)pair;
        ids[2 * i + 1] = (uint32_t)(pair >> 32);
    }
    if (id_count % 2 != 0) {
        ids[id_count - 1] = (uint32_t)load(&words[head_words + id_count / 2]);
    }
    *count = id_count;
    return load(&place->ring->shared.written) - place->position <= memo->ring_size;
}

// Puts the ids of a segment behind those that the task has.  False when they are not known.
// *is_old: they will be gone before long.
static bool recall(const struct memo_task *task, const struct segment *segment, size_t *count,
                   bool *is_old)
{
    const struct word *bucket = bucket_of(task->memo, &segment->name);
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = load(&bucket[i]);
        struct place place;
        if (has_tag(slot, tag_of(&segment->name)) && find_place(task->memo, slot, &place) &&
            copy_entry(task, segment, &place, count)) {
            *is_old = place.age > task->memo->ring_size / 2;
            return true;
        }
    }
    return false;
}

// The slot for an entry: one for the same name, or one that points to nothing, or that to the
// oldest.
static struct word *choose_slot(const struct memo *memo, const struct siphash_wide *name)
{
    struct word *bucket = bucket_of(memo, name);
    struct word *chosen = &bucket[0];
    uint64_t chosen_age = 0;
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = load(&bucket[i]);
        uint64_t age = UINT64_MAX;
        struct place place;
        if (find_place(memo, slot, &place)) {
            if (has_tag(slot, tag_of(name)) && is_named(&place, name)) {
                return &bucket[i];
            }
            age = place.age;
        }
        if (age > chosen_age) {
            chosen = &bucket[i];
            chosen_age = age;
        }
    }
    return chosen;
}

static void remember(const struct memo_task *task, const struct segment *segment, size_t count)
{
    struct memo *memo = task->memo;
    struct ring *ring = &memo->rings[task->thread];
    uint64_t size = segment->end - segment->begin;
    if (count > memo->id_max || size > UINT32_MAX) {
        return;
    }
    // An entry lies in one piece.
    uint64_t word_count = head_words + (count + 1) / 2;
    uint64_t position = load(&ring->shared.written);
    uint64_t left = memo->ring_size - position % memo->ring_size;
    position += left < word_count ? left : 0;
    store(&ring->shared.written, position + word_count);

    struct word *words = ring->words + position % memo->ring_size;
    const uint32_t *ids = task->ids + task->count;
    store(&words[0], segment->name.words[0]);
    store(&words[1], segment->name.words[1]);
    store(&words[2], size << 32 | count);
    for (size_t i = 0; i < count / 2; i++) {
        store(&words[head_words + i], (uint64_t)ids[2 * i + 1] << 32 | ids[2 * i]);
    }
    if (count % 2 != 0) {
        store(&words[head_words + count / 2], ids[count - 1]);
    }
    store(choose_slot(memo, &segment->name), tag_of(&segment->name) << (64 - tag_bits) |
                                                 (uint64_t)task->thread << position_bits |
                                                 (position & position_mask));
}

void memo_begin(struct memo_task *task)
{
    ASSERT(task->thread < task->memo->ring_count);
    ASSERT(!task->input.continues && !task->input.is_continued);
    task->done = 0;
    task->count = 0;
    task->known_bytes = 0;
    task->is_known = true;
    siphash_wide_begin(task->state, &task->memo->secret);
    siphash_absorb(task->state, tokenizer_fingerprint(task->tokenizer), absorb_rounds);
    siphash_absorb(task->state, task->input.adds_special, absorb_rounds);
    siphash_absorb(task->state, task->space, absorb_rounds);
}

// Where the segment ends that begins there.  A place to cut is looked for in `reach` bytes.
static size_t segment_end(const struct memo_task *task, size_t begin, size_t reach)
{
    struct slice text = task->input.text;
    if (text.size - begin <= segment_min) {
        return text.size;
    }
    size_t from = begin + segment_min;
    struct slice near = slice_of(text.bytes, text.size - from > reach ? from + reach : text.size);
    return tokenizer_cut(task->tokenizer, near, from);
}

// Names the next segments, about `portion` bytes of them.  A name ends with the size of its
// segment, so that bytes cannot pass for segments that end elsewhere; and the last segment, which
// may have something behind it, is no other's.
static uint32_t name_segments(struct memo_task *task, size_t portion, size_t reach,
                              struct segment segments[batch_max])
{
    struct slice text = task->input.text;
    size_t begin = task->done;
    uint32_t count = 0;
    while (count < batch_max && begin < text.size && begin - task->done < portion) {
        size_t end = segment_end(task, begin, reach);
        bool is_last = end == text.size;
        siphash_absorb_bytes(task->state, slice_of(text.bytes + begin, end - begin), absorb_rounds);
        siphash_absorb(task->state, (uint64_t)(end - begin) << 1 | is_last, absorb_rounds);
        segments[count] = (struct segment){
            .begin = begin,
            .end = end,
            .is_last = is_last,
            .is_open = !is_last && end - begin - segment_min == reach,
            .name = siphash_wide_end(task->state, end_rounds),
        };
        __builtin_prefetch(bucket_of(task->memo, &segments[count].name));
        count++;
        begin = end;
    }
    return count;
}

static void prefetch_entry(const struct memo *memo, const struct siphash_wide *name)
{
    const struct word *bucket = bucket_of(memo, name);
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = load(&bucket[i]);
        struct place place;
        if (has_tag(slot, tag_of(name)) && find_place(memo, slot, &place)) {
            // The processor sees by itself how it goes on.
            __builtin_prefetch(place.ring->words + place.offset);
            __builtin_prefetch(place.ring->words + place.offset + line_words);
            break;
        }
    }
}

static enum status take_segment(struct memo_task *task, const struct segment *segment)
{
    size_t size = segment->end - segment->begin;
    size_t count;
    bool is_old;
    if (segment->is_open) {
        return STATUS_TOO_LARGE;
    }
    if (recall(task, segment, &count, &is_old)) {
        if (is_old) {
            remember(task, segment, count);
        }
        task->known_bytes += size;
    } else {
        struct tokenizer_input part = {
            .text = slice_of(task->input.text.bytes + segment->begin, size),
            .adds_special = task->input.adds_special,
            .continues = segment->begin > 0,
            .is_continued = !segment->is_last,
        };
        enum status status =
            tokenizer_encode(task->tokenizer, task->scratch, &part, task->ids + task->count,
                             task->capacity - task->count, &count);
        if (status != STATUS_OK) {
            return status;
        }
        remember(task, segment, count);
        task->is_known = false;
    }
    task->count += count;
    task->done = segment->end;
    return STATUS_OK;
}

// Without a place to cut there is nothing that texts could have in common; and of no text nothing.
static enum status encode_whole(struct memo_task *task)
{
    size_t count;
    enum status status = tokenizer_encode(task->tokenizer, task->scratch, &task->input, task->ids,
                                          task->capacity, &count);
    if (status == STATUS_OK) {
        task->count = count;
        task->done = task->input.text.size;
        task->is_known = false;
    }
    return status;
}

enum status memo_continue(struct memo_task *task, size_t portion)
{
    size_t size = task->input.text.size;
    if (size == 0 || (task->done < size && !tokenizer_has_cuts(task->tokenizer))) {
        bool is_short = size <= memo_whole_max || portion == SIZE_MAX;
        return is_short ? encode_whole(task) : STATUS_TOO_LARGE;
    }
    size_t reach = portion == SIZE_MAX ? SIZE_MAX : memo_segment_max - segment_min;
    size_t cost = 0;
    while (task->done < size && cost < portion) {
        size_t begin = task->done;
        size_t known = task->known_bytes;
        struct segment segments[batch_max];
        uint32_t count = name_segments(task, portion - cost, reach, segments);
        for (uint32_t i = 0; i < count; i++) {
            prefetch_entry(task->memo, &segments[i].name);
        }
        for (uint32_t i = 0; i < count; i++) {
            enum status status = take_segment(task, &segments[i]);
            if (status != STATUS_OK) {
                return status;
            }
        }
        known = task->known_bytes - known;
        cost += task->done - begin - known + known / known_discount;
    }
    return STATUS_OK;
}
