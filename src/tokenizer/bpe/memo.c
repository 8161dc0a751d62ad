// SPDX-License-Identifier: Apache-2.0
//
// An entry is the name of a segment, its sizes and its ids, in a ring.  Positions in a ring only
// grow; words written `ring_size` words ago are overwritten:
//
//     ring    ... old | being written | old ....   written: all words ever and those being written
//     slot    [ some bits of the name | ring | position ]
//
// A writer first publishes how far it will write, then writes, then lets a slot point to the entry.
// A reader copies an entry and then reads how far the writer is: if that is at most a ring beyond
// the start of the entry, the copy was made before any of it was overwritten.  Stores are release
// and loads acquire, which keeps that order.  Slots are stored without regard to other writers: a
// lost one costs a miss.

#include "tokenizer/bpe/memo.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    segment_min = 512,   // bytes; the next cut from there on ends a segment
    batch_max = 16,      // segments that are named ahead, so that their entries can be prefetched
    entry_id_max = 4096, // a segment with more ids is not remembered
    head_words = 3,      // name, and sizes
    bucket_slots = 8,    // a cache line
    line_words = 8,
    line_size = line_words * 8,
    index_share =
        16, // of memory: four slots for an entry of 512 bytes, so that few buckets are full
    ring_words_min = 64,
    known_discount = 8, // known bytes cost an eighth of others
    position_bits = 40,
    ring_bits = 10,
    tag_bits = 14,
    absorb_rounds = 1, // SipHash-1-3
    end_rounds = 3,
};
_Static_assert(position_bits + ring_bits + tag_bits == 64, "a slot is a word");

static const uint64_t position_mask = (UINT64_C(1) << position_bits) - 1;

struct memo_word {
    _Atomic uint64_t value;
};

struct memo_ring {
    struct memo_word *words; // never changes
    // Written by the thread whose ring it is, read by all.
    struct {
        _Alignas(line_size) struct memo_word written;
    } shared;
};

struct memo {
    struct siphash_secret secret;
    uint64_t ring_size; // words
    uint32_t ring_count;
    uint32_t bucket_count;
    uint32_t id_max;
    struct memo_word *slots; // written and read by all
    struct memo_ring rings[];
};

struct memo_segment {
    size_t begin;
    size_t end;
    bool is_last;
    bool is_open; // no place to cut was found within reach
    struct siphash_wide name;
};

// In a test of races all loads and stores yield to other threads now and then.
#ifdef MEMO_PAUSES
void memo_pause(void);
#else
static inline void memo_pause(void)
{
}
#endif

static uint64_t memo_load(const struct memo_word *word)
{
    memo_pause();
    return atomic_load_explicit(&word->value, memory_order_acquire);
}

static void memo_store(struct memo_word *word, uint64_t value)
{
    memo_pause();
    atomic_store_explicit(&word->value, value, memory_order_release);
}

struct memo *memo_create(const struct memo_options *options)
{
    ASSERT(options->thread_count >= 1 && options->thread_count <= 1 << ring_bits);
    size_t fixed = sizeof(struct memo) + options->thread_count * sizeof(struct memo_ring);
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
    ASSERT(ring_size >= ring_words_min / 2);
    uint64_t id_max = 2 * (ring_size / 4 - head_words);
    *memo = (struct memo){
        .secret = options->secret,
        .ring_size = ring_size,
        .ring_count = options->thread_count,
        .bucket_count = (uint32_t)bucket_count,
        .id_max = id_max < entry_id_max ? (uint32_t)id_max : entry_id_max,
        .slots = (struct memo_word *)(void *)((char *)memo + fixed),
    };
    for (size_t i = 0; i < bucket_count * bucket_slots; i++) {
        atomic_init(&memo->slots[i].value, 0);
    }
    struct memo_word *words = memo->slots + bucket_count * bucket_slots;
    for (uint32_t i = 0; i < memo->ring_count; i++) {
        memo->rings[i].words = words + i * ring_size;
        // As if two rings had been written, so that an empty slot points to overwritten words.
        atomic_init(&memo->rings[i].shared.written.value, 2 * ring_size);
    }
    return memo;
}

void memo_destroy(struct memo **memo)
{
    free(*memo);
    *memo = NULL;
}

static struct memo_word *memo_bucket_of(const struct memo *memo, const struct siphash_wide *name)
{
    uint64_t bucket = (name->words[0] >> 32) * memo->bucket_count >> 32;
    return &memo->slots[bucket * bucket_slots];
}

static uint64_t memo_tag_of(const struct siphash_wide *name)
{
    return name->words[1] >> (64 - tag_bits);
}

static bool slot_has_tag(uint64_t slot, uint64_t tag)
{
    return slot >> (64 - tag_bits) == tag;
}

// Where a slot points to.
struct memo_place {
    const struct memo_ring *ring;
    uint64_t position;
    uint64_t age;    // words written since it was begun
    uint64_t offset; // in the ring
};

// False when that is overwritten.
static bool memo_find_place(const struct memo *memo, uint64_t slot, struct memo_place *out)
{
    uint64_t number = slot >> position_bits & ((1 << ring_bits) - 1);
    if (number >= memo->ring_count) {
        return false;
    }
    const struct memo_ring *ring = &memo->rings[number];
    uint64_t written = memo_load(&ring->shared.written);
    uint64_t age = (written - slot) & position_mask;
    if (age < head_words || age > memo->ring_size) {
        return false;
    }
    uint64_t offset = (written - age) % memo->ring_size;
    *out = (struct memo_place){ring, written - age, age, offset};
    return offset + head_words <= memo->ring_size;
}

static bool place_has_name(const struct memo_place *place, const struct siphash_wide *name)
{
    const struct memo_word *words = place->ring->words + place->offset;
    return memo_load(&words[0]) == name->words[0] && memo_load(&words[1]) == name->words[1];
}

// Copies the ids of the entry at a place.  False when it is not the segment's, or overwritten
// meanwhile.
static bool memo_copy_entry(const struct memo_task *task, const struct memo_segment *segment,
                            const struct memo_place *place, size_t *count)
{
    const struct memo *memo = task->memo;
    const struct memo_word *words = place->ring->words + place->offset;
    uint64_t sizes = memo_load(&words[2]);
    uint64_t id_count = sizes & UINT32_MAX;
    uint64_t word_count = head_words + (id_count + 1) / 2;
    if (!place_has_name(place, &segment->name) || sizes >> 32 != segment->end - segment->begin ||
        id_count > memo->id_max || word_count > place->age ||
        place->offset + word_count > memo->ring_size || id_count > task->capacity - task->count) {
        return false;
    }
    uint32_t *ids = task->ids + task->count;
    for (uint64_t i = 0; i < id_count / 2; i++) {
        uint64_t pair = memo_load(&words[head_words + i]);
        ids[2 * i] = (uint32_t)pair;
        ids[2 * i + 1] = (uint32_t)(pair >> 32);
    }
    if (id_count % 2 != 0) {
        ids[id_count - 1] = (uint32_t)memo_load(&words[head_words + id_count / 2]);
    }
    *count = id_count;
    return memo_load(&place->ring->shared.written) - place->position <= memo->ring_size;
}

// Puts the ids of a segment behind those of the task.  False when they are not known.  *is_old:
// they will be overwritten soon.
static bool memo_recall(const struct memo_task *task, const struct memo_segment *segment,
                        size_t *count, bool *is_old)
{
    const struct memo_word *bucket = memo_bucket_of(task->memo, &segment->name);
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = memo_load(&bucket[i]);
        struct memo_place place;
        if (slot_has_tag(slot, memo_tag_of(&segment->name)) &&
            memo_find_place(task->memo, slot, &place) &&
            memo_copy_entry(task, segment, &place, count)) {
            *is_old = place.age > task->memo->ring_size / 2;
            return true;
        }
    }
    return false;
}

// The slot for an entry: the one of the same name, else a free one, else that of the oldest entry.
static struct memo_word *memo_choose_slot(const struct memo *memo, const struct siphash_wide *name)
{
    struct memo_word *bucket = memo_bucket_of(memo, name);
    struct memo_word *chosen = &bucket[0];
    uint64_t chosen_age = 0;
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = memo_load(&bucket[i]);
        uint64_t age = UINT64_MAX;
        struct memo_place place;
        if (memo_find_place(memo, slot, &place)) {
            if (slot_has_tag(slot, memo_tag_of(name)) && place_has_name(&place, name)) {
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

static void memo_remember(const struct memo_task *task, const struct memo_segment *segment,
                          size_t count)
{
    struct memo *memo = task->memo;
    struct memo_ring *ring = &memo->rings[task->thread];
    uint64_t size = segment->end - segment->begin;
    if (count > memo->id_max || size > UINT32_MAX) {
        return;
    }
    // An entry lies in one piece.
    uint64_t word_count = head_words + (count + 1) / 2;
    ASSERT(word_count <= memo->ring_size);
    uint64_t position = memo_load(&ring->shared.written);
    uint64_t left = memo->ring_size - position % memo->ring_size;
    position += left < word_count ? left : 0;
    memo_store(&ring->shared.written, position + word_count);

    struct memo_word *words = ring->words + position % memo->ring_size;
    const uint32_t *ids = task->ids + task->count;
    memo_store(&words[0], segment->name.words[0]);
    memo_store(&words[1], segment->name.words[1]);
    memo_store(&words[2], size << 32 | count);
    for (size_t i = 0; i < count / 2; i++) {
        memo_store(&words[head_words + i], (uint64_t)ids[2 * i + 1] << 32 | ids[2 * i]);
    }
    if (count % 2 != 0) {
        memo_store(&words[head_words + count / 2], ids[count - 1]);
    }
    memo_store(memo_choose_slot(memo, &segment->name),
               memo_tag_of(&segment->name) << (64 - tag_bits) |
                   (uint64_t)task->thread << position_bits | (position & position_mask));
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

// The end of the segment that begins at `begin`.  A place to cut is searched for in `reach` bytes.
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

// Names the next segments, about `portion` bytes of them.  A name includes the size of its segment,
// so that the same bytes cut elsewhere have other names; and whether it is the last, which may have
// special ids behind it.
static uint32_t name_segments(struct memo_task *task, size_t portion, size_t reach,
                              struct memo_segment segments[batch_max])
{
    struct slice text = task->input.text;
    size_t begin = task->done;
    uint32_t count = 0;
    while (count < batch_max && begin < text.size && begin - task->done < portion) {
        size_t end = segment_end(task, begin, reach);
        ASSERT(end > begin && end <= text.size);
        bool is_last = end == text.size;
        siphash_absorb_bytes(task->state, slice_of(text.bytes + begin, end - begin), absorb_rounds);
        siphash_absorb(task->state, (uint64_t)(end - begin) << 1 | is_last, absorb_rounds);
        segments[count] = (struct memo_segment){
            .begin = begin,
            .end = end,
            .is_last = is_last,
            .is_open = !is_last && end - begin - segment_min == reach,
            .name = siphash_wide_end(task->state, end_rounds),
        };
        __builtin_prefetch(memo_bucket_of(task->memo, &segments[count].name));
        count++;
        begin = end;
    }
    return count;
}

static void prefetch_entry(const struct memo *memo, const struct siphash_wide *name)
{
    const struct memo_word *bucket = memo_bucket_of(memo, name);
    for (uint32_t i = 0; i < bucket_slots; i++) {
        uint64_t slot = memo_load(&bucket[i]);
        struct memo_place place;
        if (slot_has_tag(slot, memo_tag_of(name)) && memo_find_place(memo, slot, &place)) {
            // The processor prefetches the rest by itself.
            __builtin_prefetch(place.ring->words + place.offset);
            __builtin_prefetch(place.ring->words + place.offset + line_words);
            break;
        }
    }
}

static enum status take_segment(struct memo_task *task, const struct memo_segment *segment)
{
    size_t size = segment->end - segment->begin;
    size_t count;
    bool is_old;
    if (segment->is_open) {
        return STATUS_TOO_LARGE;
    }
    if (memo_recall(task, segment, &count, &is_old)) {
        if (is_old) {
            memo_remember(task, segment, count);
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
        memo_remember(task, segment, count);
        task->is_known = false;
    }
    ASSERT(count <= task->capacity - task->count);
    task->count += count;
    task->done = segment->end;
    return STATUS_OK;
}

// Without cuts texts have no segments in common, and an empty text has none.
static enum status memo_encode_whole(struct memo_task *task)
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
    ASSERT(task->done <= size && task->count <= task->capacity);
    if (size == 0 || (task->done < size && !tokenizer_has_cuts(task->tokenizer))) {
        bool is_short = size <= memo_whole_max || portion == SIZE_MAX;
        return is_short ? memo_encode_whole(task) : STATUS_TOO_LARGE;
    }
    size_t reach = portion == SIZE_MAX ? SIZE_MAX : memo_segment_max - segment_min;
    size_t cost = 0;
    while (task->done < size && cost < portion) {
        size_t begin = task->done;
        size_t known = task->known_bytes;
        struct memo_segment segments[batch_max];
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
