// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_memory.h"

#include "sys/pages.h"

#include <stdlib.h>

// A key may lie in any slot of its bucket; the oldest of them makes room.
enum { bucket_slots = 4, bucket_count = drive_memory_responses / bucket_slots };

struct kept {
    uint64_t session; // 0: the slot is free
    uint64_t id;
    uint64_t at; // of its first byte, counting all bytes ever kept
    uint64_t size;
};

struct drive_memory {
    uint8_t *ring;
    struct kept *slots;
    uint64_t next; // where the next text begins, counting all bytes ever kept
};

struct drive_memory *drive_memory_create(void)
{
    struct drive_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return NULL;
    }
    memory->ring = pages_reserve(drive_memory_size);
    memory->slots = pages_reserve(sizeof(*memory->slots) * drive_memory_responses);
    if (memory->ring == NULL || memory->slots == NULL) {
        drive_memory_destroy(&memory);
    }
    return memory;
}

void drive_memory_destroy(struct drive_memory **memory_ptr)
{
    struct drive_memory *memory = *memory_ptr;
    *memory_ptr = NULL;

    if (memory != NULL) {
        pages_release(&memory->ring, drive_memory_size);
        pages_release(&memory->slots, sizeof(*memory->slots) * drive_memory_responses);
        free(memory);
    }
}

static struct kept *memory_bucket_of(const struct drive_memory *memory, uint64_t session,
                                     uint64_t id)
{
    uint64_t mixed = (session * 0x9e3779b97f4a7c15 ^ id) * 0xbf58476d1ce4e5b9;
    return memory->slots + (mixed >> 40) % bucket_count * bucket_slots;
}

// The ring has not come round to it since.
static bool memory_has(const struct drive_memory *memory, const struct kept *kept)
{
    return memory->next - kept->at <= drive_memory_size;
}

void drive_memory_keep(struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice text)
{
    if (text.size > drive_memory_size) {
        text.size = 0;
    }
    // A text lies in one piece: skip the end of the ring if it is too small.
    uint64_t place = memory->next % drive_memory_size;
    if (place + text.size > drive_memory_size) {
        memory->next += drive_memory_size - place;
        place = 0;
    }
    struct kept *bucket = memory_bucket_of(memory, session, id);
    struct kept *slot = bucket;
    for (uint32_t i = 0; i < bucket_slots; i++) {
        bool is_same = bucket[i].session == session && bucket[i].id == id;
        if (is_same || bucket[i].session == 0) {
            slot = &bucket[i];
            break;
        }
        slot = bucket[i].at < slot->at ? &bucket[i] : slot;
    }
    *slot = (struct kept){.session = session, .id = id, .at = memory->next, .size = text.size};
    if (text.size > 0) {
        memcpy(memory->ring + place, text.bytes, text.size);
    }
    memory->next += text.size;
}

bool drive_memory_find(const struct drive_memory *memory, uint64_t session, uint64_t id,
                       struct slice *text)
{
    const struct kept *bucket = memory_bucket_of(memory, session, id);
    for (uint32_t i = 0; i < bucket_slots; i++) {
        const struct kept *kept = &bucket[i];
        if (kept->session == session && kept->id == id && memory_has(memory, kept)) {
            *text = slice_of(memory->ring + kept->at % drive_memory_size, kept->size);
            return true;
        }
    }
    return false;
}
