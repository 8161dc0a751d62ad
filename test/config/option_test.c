// SPDX-License-Identifier: Apache-2.0
//
// The rows are data; these are the rules that make the data sound.

#include "config/option.h"

#include "config/config.h"
#include "test.h"

static const struct config_option_table *const tables[] = {
    &config_options,
    &config_backend_options,
    &config_pool_options,
};

TEST(finds_a_row_by_name_and_by_flag)
{
    const struct config_option *option = config_option_find(&config_options, "limits.body_size");
    CHECK(option != NULL);
    CHECK(config_option_find_flag("limits-body-size") == option);
    CHECK(config_option_find(&config_options, "limits") == NULL);
    CHECK(config_option_find(&config_backend_options, "weight") != NULL);
    CHECK(config_option_find_flag("weight") == NULL);
    CHECK(config_option_find_flag("limits_body_size") == NULL);
    CHECK_STR(config_option_key(option), "body_size");
    CHECK(config_option_is_in(option, "limits"));
    CHECK(!config_option_is_in(option, ""));
    CHECK(!config_option_is_in(option, "limit"));
}

TEST(backends_have_a_flag_of_their_own_and_pools_have_none)
{
    char flag[config_flag_size_max];
    const struct config_option *backends = config_option_find(&config_options, "backends");
    config_option_flag(backends, flag);
    CHECK_STR(flag, "--backend");
    CHECK(config_option_find_flag("backend") == backends);
    CHECK(config_option_find_flag("backends") == NULL);
    CHECK(config_option_find_flag("pools") == NULL);
}

TEST(names_are_unique_in_their_table_and_flags_in_the_program)
{
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct config_option *row = &tables[t]->rows[i];
            CHECK(config_option_find(tables[t], row->name) == row);
        }
    }
    for (uint32_t i = 0; i < config_options.count; i++) {
        const struct config_option *row = &config_options.rows[i];
        if (row->has_flag) {
            char flag[config_flag_size_max];
            config_option_flag(row, flag);
            CHECK(config_option_find_flag(flag + 2) == row);
        }
    }
}

TEST(every_row_is_in_exactly_one_group_and_no_group_is_empty)
{
    uint32_t seen = 0;
    const struct config_option_group *group;
    for (uint32_t g = 0; (group = config_option_group_at(g)) != NULL; g++) {
        uint32_t in_group = 0;
        for (uint32_t i = 0; i < config_options.count; i++) {
            in_group += config_option_is_in(&config_options.rows[i], group->name);
        }
        CHECK(in_group > 0);
        CHECK(config_option_find(&config_options, group->name) == NULL);
        seen += in_group;
    }
    CHECK_EQ(seen, config_options.count);
}

static size_t field_size(const struct config_option *row)
{
    if (row->is_list) {
        return sizeof(struct config_list);
    }
    if (row->kind == &config_kind_toggle) {
        return sizeof(bool);
    }
    if (row->kind == &config_kind_count || row->kind == &config_kind_duration ||
        row->kind == &config_kind_choice) {
        return sizeof(uint32_t);
    }
    return row->kind == &config_kind_size ? row->size : sizeof(const char *);
}

TEST(the_field_of_a_row_has_the_type_that_its_kind_writes)
{
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct config_option *row = &tables[t]->rows[i];
            if (row->items != NULL) {
                CHECK(row->kind == row->items->rows[0].kind);
                CHECK_STR(row->items->name, row->name);
                continue;
            }
            CHECK_EQ(row->size, field_size(row));
            CHECK(row->size == 1 || row->size == 4 || row->size == 8 || row->is_list);
            CHECK(row->offset + row->size <= tables[t]->item_size);
        }
    }
}

TEST(two_rows_share_a_field_only_as_a_secret_and_its_file)
{
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        const struct config_option *rows = tables[t]->rows;
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            for (uint32_t k = i + 1; k < tables[t]->count; k++) {
                if (rows[i].items == NULL && rows[k].items == NULL &&
                    rows[i].offset == rows[k].offset) {
                    CHECK(rows[i].kind == &config_kind_secret);
                    CHECK(rows[k].kind == &config_kind_secret_file);
                }
            }
        }
    }
}

TEST(numbers_have_bounds_and_defaults_are_within)
{
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const struct config_option *row = &tables[t]->rows[i];
            bool is_number = row->kind == &config_kind_count || row->kind == &config_kind_size ||
                             row->kind == &config_kind_duration;
            CHECK_EQ(row->low != NULL && row->high != NULL, is_number);
            CHECK_EQ(row->choices != NULL, row->kind == &config_kind_choice);
            CHECK(!row->is_list || row->most > 0);
            if (row->is_list || row->fallback == NULL) {
                continue;
            }
            uint64_t field[2];
            char space[256];
            struct text why = text_over(space, sizeof(space));
            CHECK(row->kind->read(row, row->fallback, field, &why));
            if (is_number) { // the bounds themselves are accepted
                CHECK(row->kind->read(row, row->low, field, &why));
                CHECK(row->kind->read(row, row->high, field, &why));
            }
        }
    }
}

TEST(every_row_explains_itself_in_sentences)
{
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->count; i++) {
            const char *help = tables[t]->rows[i].help;
            size_t size = strlen(help);
            CHECK(size > 20 && help[size - 1] == '.');
            CHECK(strstr(help, "  ") == NULL && strchr(help, '\n') == NULL);
            uint32_t backquotes = 0;
            for (const char *at = help; *at != '\0'; at++) {
                backquotes += *at == '`';
            }
            CHECK_EQ(backquotes % 2, 0);
        }
    }
}
