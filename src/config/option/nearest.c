// SPDX-License-Identifier: Apache-2.0
//
// Levenshtein's distance, one row of the table at a time.  A letter typed wrong, left out or added
// counts one.  About one mistake in three letters still is a resemblance; more suggests nonsense.

#include "config/option/nearest.h"

#include <string.h>

enum { word_size_max = 64, mistakes_max = 3 };

static uint32_t nearest_least(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static uint32_t edit_distance(const char *from, size_t from_size, const char *to, size_t to_size)
{
    uint32_t row[word_size_max + 1];

    for (uint32_t k = 0; k <= to_size; k++) {
        row[k] = k;
    }
    for (uint32_t i = 1; i <= from_size; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t k = 1; k <= to_size; k++) {
            uint32_t above = row[k];
            row[k] =
                nearest_least(above + 1, row[k - 1] + 1, diagonal + (from[i - 1] != to[k - 1]));
            diagonal = above;
        }
    }
    return row[to_size];
}

void config_nearest_offer(struct config_nearest *nearest, const char *candidate)
{
    size_t size = strlen(nearest->word);
    size_t candidate_size = strlen(candidate);
    if (size > word_size_max || candidate_size > word_size_max) {
        return;
    }

    uint32_t allowed = (uint32_t)(size + 1) / 3;
    allowed = allowed > mistakes_max ? mistakes_max : allowed;
    uint32_t distance = edit_distance(nearest->word, size, candidate, candidate_size);
    if (distance <= allowed && (nearest->best == NULL || distance < nearest->distance)) {
        nearest->best = candidate;
        nearest->distance = distance;
    }
}

void config_nearest_explain(const char *word, const char *(*name_at)(uint32_t index),
                            struct text *why)
{
    struct config_nearest nearest = {.word = word};

    for (uint32_t i = 0; name_at(i) != NULL; i++) {
        config_nearest_offer(&nearest, name_at(i));
    }
    if (nearest.best != NULL) {
        text_add_format(why, "; did you mean \"%s\"?", nearest.best);
        return;
    }
    text_add_str(why, "; there are");
    for (uint32_t i = 0; name_at(i) != NULL; i++) {
        text_add_format(why, "%s %s", i > 0 ? "," : "", name_at(i));
    }
}
