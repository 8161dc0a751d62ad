// SPDX-License-Identifier: Apache-2.0

#include "chronicle/member_table.h"

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

struct member_table {
    uint32_t member_max;
    uint32_t mask;
    uint64_t *ids;    // by number; 0: nobody
    uint32_t *places; // open addressing: number + 1; 0: empty
};

struct member_table *member_table_create(uint32_t member_max)
{
    struct member_table *table = calloc(1, sizeof(*table));
    if (table == NULL) {
        return NULL;
    }
    uint32_t place_count = 4;
    while (place_count < 2 * (uint64_t)member_max) {
        place_count *= 2;
    }
    table->member_max = member_max;
    table->mask = place_count - 1;
    table->ids = calloc(member_max + 1, sizeof(*table->ids));
    table->places = calloc(place_count, sizeof(*table->places));
    if (table->ids == NULL || table->places == NULL) {
        member_table_destroy(&table);
    }
    return table;
}

void member_table_destroy(struct member_table **table)
{
    if (*table != NULL) {
        free((*table)->ids);
        free((*table)->places);
        free(*table);
        *table = NULL;
    }
}

// Where the id is, or the empty place where it would be.
static uint32_t place_of(const struct member_table *table, uint64_t id)
{
    uint32_t place = (uint32_t)rng_mix(id) & table->mask;
    while (table->places[place] != 0 && table->ids[table->places[place] - 1] != id) {
        place = (place + 1) & table->mask;
    }
    return place;
}

uint32_t member_table_find(const struct member_table *table, uint64_t id)
{
    uint32_t found = id == 0 ? 0 : table->places[place_of(table, id)];
    return found == 0 ? member_none : found - 1;
}

uint32_t member_table_enter(struct member_table *table, uint64_t id)
{
    ASSERT(id != 0);
    uint32_t place = place_of(table, id);
    if (table->places[place] != 0) {
        return table->places[place] - 1;
    }
    for (uint32_t number = 0; number < table->member_max; number++) {
        if (table->ids[number] == 0) {
            table->ids[number] = id;
            table->places[place] = number + 1;
            return number;
        }
    }
    return member_none;
}

void member_table_keep(struct member_table *table, const bool *is_kept, member_left_fn *left,
                       void *owner)
{
    bool has_left = false;
    for (uint32_t number = 0; number < table->member_max; number++) {
        if (table->ids[number] != 0 && !is_kept[number]) {
            table->ids[number] = 0;
            left(owner, number);
            has_left = true;
        }
    }
    if (!has_left) {
        return;
    }
    memset(table->places, 0, (table->mask + 1) * sizeof(*table->places));
    for (uint32_t number = 0; number < table->member_max; number++) {
        if (table->ids[number] != 0) {
            table->places[place_of(table, table->ids[number])] = number + 1;
        }
    }
}

uint64_t member_table_id(const struct member_table *table, uint32_t number)
{
    ASSERT(number < table->member_max);
    return table->ids[number];
}
