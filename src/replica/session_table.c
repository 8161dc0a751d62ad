// SPDX-License-Identifier: Apache-2.0

#include "replica/session_table.h"

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>

enum { group_places = 4 };

bool session_table_open(struct session_table *table, uint32_t place_count)
{
    ASSERT(place_count >= group_places && (place_count & (place_count - 1)) == 0);
    *table = (struct session_table){.places = calloc(place_count, sizeof(struct shared_session)),
                                    .mask = place_count / group_places - 1};
    return table->places != NULL;
}

void session_table_close(struct session_table *table)
{
    free(table->places);
    *table = (struct session_table){0};
}

static struct shared_session *session_group(const struct session_table *table, uint64_t key)
{
    return &table->places[(rng_mix(key) & table->mask) * group_places];
}

// The backend decides between two moves with one stamp, so that all routers decide alike.
static bool is_later(const struct shared_session *a, const struct shared_session *b)
{
    return a->stamp != b->stamp ? a->stamp > b->stamp : a->backend > b->backend;
}

bool session_table_move(struct session_table *table, const struct shared_session *session,
                        uint64_t *before)
{
    struct shared_session *group = session_group(table, session->key);
    struct shared_session *place = &group[0];
    *before = 0;
    for (uint32_t i = 0; i < group_places; i++) {
        if (group[i].stamp != 0 && group[i].key == session->key) {
            place = &group[i];
            if (!is_later(session, place)) {
                return false;
            }
            *before = place->backend;
            break;
        }
        place = group[i].stamp < place->stamp ? &group[i] : place;
    }
    *place = *session;
    return true;
}

const struct shared_session *session_table_find(const struct session_table *table, uint64_t key)
{
    const struct shared_session *group = session_group(table, key);
    for (uint32_t i = 0; i < group_places; i++) {
        if (group[i].stamp != 0 && group[i].key == key) {
            return &group[i];
        }
    }
    return NULL;
}

const struct shared_session *session_table_at(const struct session_table *table, uint32_t position)
{
    return position < (table->mask + 1) * group_places ? &table->places[position] : NULL;
}
