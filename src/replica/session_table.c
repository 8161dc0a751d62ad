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

// The backend decides between two moves with one stamp, and then the key, so that all routers
// decide alike.
static bool is_later(const struct shared_session *a, const struct shared_session *b)
{
    if (a->stamp != b->stamp) {
        return a->stamp > b->stamp;
    }
    return a->backend != b->backend ? a->backend > b->backend : a->key > b->key;
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
            break;
        }
        place = is_later(place, &group[i]) ? &group[i] : place;
    }
    // An older session must not take the place of a later one either: which of them stay would
    // depend on the order in which the moves came.
    if (place->stamp != 0 && !is_later(session, place)) {
        return false;
    }
    *before = place->key == session->key ? place->backend : 0;
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
