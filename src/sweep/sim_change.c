// SPDX-License-Identifier: Apache-2.0

#include "sweep/sim_change.h"

#include "base/base.h"
#include "config/option/command.h"
#include "config/option/option.h"

#include <stdio.h>
#include <string.h>

enum { part_size = 32 };

// A part of the word: the kind of its value, and where it goes.
struct change_part {
    const struct config_option *option;
    void *field;
};

// Numbers are spelt and bounded as in all other flags.
static const struct config_option change_count = {
    .kind = &config_kind_amount, .size = sizeof(uint32_t), .high = "4096"};
static const struct config_option change_backend = {
    .kind = &config_kind_amount, .size = sizeof(uint32_t), .low = "1", .high = "1m"};
static const struct config_option change_factor = {
    .kind = &config_kind_real, .size = sizeof(double), .low = "0.01", .high = "1000"};
static const struct config_option change_time = {
    .kind = &config_kind_seconds, .size = sizeof(double), .low = "0", .high = "1000h"};

static bool sim_change_fail(const char *word, const char *why)
{
    char subject[part_size * 4];
    snprintf(subject, sizeof(subject), "--change: %.64s", word);
    return command_fail("sim", subject, why);
}

// Reads the part before `mark`, or the rest if that is '\0', and moves behind it.
static bool change_take(const char *word, const char **at, char mark,
                        const struct change_part *part)
{
    const char *end = strchr(*at, mark);
    size_t size = end != NULL ? (size_t)(end - *at) : 0;
    char text[part_size];
    char reason[128] = "";
    struct text why = text_over(reason, sizeof(reason) - 1);

    if (size == 0 || size >= sizeof(text)) {
        return sim_change_fail(word, "write " SIM_CHANGE_WORDS);
    }
    memcpy(text, *at, size);
    text[size] = '\0';
    if (!part->option->kind->read(part->option, text, part->field, &why)) {
        return sim_change_fail(word, reason);
    }
    *at = end + (mark != '\0');
    return true;
}

static bool change_take_slow(const char *word, const char *at, struct lab_change *out)
{
    if (!change_take(word, &at, ':', &(struct change_part){&change_backend, &out->number}) ||
        !change_take(word, &at, 'x', &(struct change_part){&change_factor, &out->factor})) {
        return false;
    }
    if (*at++ != '@') {
        return sim_change_fail(word, "write " SIM_CHANGE_WORDS);
    }
    if (!change_take(word, &at, '-', &(struct change_part){&change_time, &out->at_s}) ||
        !change_take(word, &at, '\0', &(struct change_part){&change_time, &out->until_s})) {
        return false;
    }
    return out->until_s > out->at_s || sim_change_fail(word, "it ends before it begins");
}

bool sim_change_read(const char *word, struct lab_change *out)
{
    static const char *const kinds[] = {
        [LAB_JOIN] = "join:", [LAB_LEAVE] = "leave:", [LAB_SLOW] = "slow:"};
    uint32_t kind = 0;
    while (kind < ARRAY_COUNT(kinds) && strncmp(word, kinds[kind], strlen(kinds[kind])) != 0) {
        kind++;
    }
    if (kind == ARRAY_COUNT(kinds)) {
        return sim_change_fail(word, "write " SIM_CHANGE_WORDS);
    }
    const char *at = word + strlen(kinds[kind]);
    *out = (struct lab_change){.name = word, .kind = (enum lab_change_kind)kind};
    if (out->kind == LAB_SLOW) {
        return change_take_slow(word, at, out);
    }
    const struct config_option *number = out->kind == LAB_JOIN ? &change_count : &change_backend;
    return change_take(word, &at, '@', &(struct change_part){number, &out->number}) &&
           change_take(word, &at, '\0', &(struct change_part){&change_time, &out->at_s});
}
