// SPDX-License-Identifier: Apache-2.0

#include "replica/open_table.h"

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *table_head(const struct open_table *table, uint64_t router, uint64_t number)
{
    return &table->heads[rng_mix(router ^ rng_mix(number)) & (table->entry_max - 1)];
}

static struct open_prediction *entry_at(const struct open_table *table, uint64_t position)
{
    return &table->entries[position & (table->entry_max - 1)];
}

bool open_table_open(struct open_table *table, uint32_t entry_max, uint32_t key_max,
                     open_expired_fn *expired, void *owner)
{
    ASSERT((entry_max & (entry_max - 1)) == 0 && (key_max & (key_max - 1)) == 0);
    *table = (struct open_table){.entry_max = entry_max,
                                 .key_max = key_max,
                                 .expired = expired,
                                 .owner = owner,
                                 .entries = calloc(entry_max, sizeof(struct open_prediction)),
                                 .heads = calloc(entry_max, sizeof(uint32_t)),
                                 .keys = malloc((size_t)key_max * sizeof(uint64_t))};
    if (table->entries == NULL || table->heads == NULL || table->keys == NULL) {
        open_table_close(table);
        return false;
    }
    return true;
}

void open_table_close(struct open_table *table)
{
    free(table->entries);
    free(table->heads);
    free(table->keys);
    *table = (struct open_table){0};
}

// The list's link to the prediction of that name; a link of 0 ends the list.
static uint32_t *find_link(const struct open_table *table, uint64_t router, uint64_t number)
{
    uint32_t *link = table_head(table, router, number);
    while (*link != 0) {
        struct open_prediction *entry = &table->entries[*link - 1];
        if (entry->router == router && entry->number == number) {
            break;
        }
        link = &entry->next;
    }
    return link;
}

bool open_table_end(struct open_table *table, uint64_t router, uint64_t number,
                    struct open_prediction *out)
{
    uint32_t *link = find_link(table, router, number);
    if (*link == 0) {
        return false;
    }
    struct open_prediction *entry = &table->entries[*link - 1];
    *link = entry->next;
    *out = *entry;
    entry->key_count = 0;
    table->count--;
    return true;
}

void open_table_tell(struct open_table *table, uint64_t router, uint64_t number, uint64_t now_ms)
{
    const uint32_t *link = find_link(table, router, number);
    if (*link != 0) {
        table->entries[*link - 1].told_ms = now_ms;
    }
}

// Gives the place of the oldest prediction back; it may have ended long ago.
static void table_drop_first(struct open_table *table)
{
    struct open_prediction *entry = entry_at(table, table->first);
    struct open_prediction ended;
    if (entry->key_count > 0 && open_table_end(table, entry->router, entry->number, &ended)) {
        table->expired(table->owner, &ended);
    }
    table->first++;
    table->key_first =
        table->first < table->end ? entry_at(table, table->first)->key_position : table->key_end;
}

// Room for so many keys in one piece, at the end.
static uint64_t *table_make_room(struct open_table *table, uint32_t key_count)
{
    uint64_t rest = table->key_max - (table->key_end & (table->key_max - 1));
    uint64_t skipped = rest < key_count ? rest : 0;
    while (table->key_end + skipped + key_count - table->key_first > table->key_max) {
        table_drop_first(table);
    }
    table->key_end += skipped;
    return &table->keys[table->key_end & (table->key_max - 1)];
}

void open_table_add(struct open_table *table, const struct open_prediction *prediction)
{
    struct open_prediction before;
    uint32_t key_count = prediction->key_count;
    if (key_count == 0 || key_count > table->key_max / 2) {
        return;
    }
    (void)open_table_end(table, prediction->router, prediction->number, &before);
    if (table->end - table->first == table->entry_max) {
        table_drop_first(table);
    }
    uint64_t *keys = table_make_room(table, key_count);
    memcpy(keys, prediction->keys, key_count * sizeof(keys[0]));
    struct open_prediction *entry = entry_at(table, table->end++);
    uint32_t *head = table_head(table, prediction->router, prediction->number);
    *entry = *prediction;
    entry->keys = keys;
    entry->key_position = table->key_end;
    entry->next = *head;
    *head = (uint32_t)(entry - table->entries) + 1;
    table->key_end += key_count;
    table->count++;
}

const struct open_prediction *open_table_next(const struct open_table *table, uint64_t *position)
{
    *position = *position < table->first ? table->first : *position;
    while (*position < table->end) {
        const struct open_prediction *entry = entry_at(table, (*position)++);
        if (entry->key_count > 0) {
            return entry;
        }
    }
    return NULL;
}
