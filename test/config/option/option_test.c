// SPDX-License-Identifier: Apache-2.0
//
// The rows are data; these are the rules that make the data sound.

#include "config/option/option.h"

#include "config/config.h"
#include "test.h"

// Row `index` of all four tables one after the other, and its table; NULL past the last.
static const struct config_option *row_at(uint32_t index, const struct config_option_table **table)
{
    static const struct config_option_table *const tables[] = {
        &config_options,
        &config_backend_options,
        &config_pool_options,
        &config_tokenizer_options,
    };
    for (size_t t = 0; t < ARRAY_COUNT(tables); t++) {
        *table = tables[t];
        if (index < tables[t]->count) {
            return &tables[t]->rows[index];
        }
        index -= tables[t]->count;
    }
    return NULL;
}

TEST(finds_a_row_by_name_and_by_flag)
{
    const struct config_option *option = config_option_find(&config_options, "limits.body_size");
    CHECK(option != NULL);
    CHECK(config_option_find_flag(&config_options, "limits-body-size") == option);
    CHECK(config_option_find(&config_options, "limits") == NULL);
    CHECK(config_option_find(&config_backend_options, "weight") != NULL);
    CHECK(config_option_find_flag(&config_options, "weight") == NULL);
    CHECK(config_option_find_flag(&config_options, "limits_body_size") == NULL);
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
    CHECK(config_option_find_flag(&config_options, "backend") == backends);
    CHECK(config_option_find_flag(&config_options, "backends") == NULL);
    CHECK(config_option_find_flag(&config_options, "pools") == NULL);
}

TEST(names_are_unique_in_their_table_and_flags_in_the_program)
{
    const struct config_option_table *table;
    const struct config_option *row;
    char flag[config_flag_size_max];

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        CHECK(config_option_find(table, row->name) == row);
        if (table != &config_options || !row->has_flag) {
            continue;
        }
        config_option_flag(row, flag);
        CHECK(config_option_find_flag(&config_options, flag + 2) == row);
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
        row->kind == &config_kind_choice || row->kind == &config_kind_offset) {
        return sizeof(uint32_t);
    }
    return row->kind == &config_kind_size ? row->size : sizeof(const char *);
}

TEST(the_field_of_a_row_has_the_type_that_its_kind_writes)
{
    const struct config_option_table *table;
    const struct config_option *row;

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        if (row->items != NULL) {
            continue;
        }
        CHECK_EQ(row->size, field_size(row));
        CHECK(row->size == 1 || row->size == 4 || row->size == 8 || row->is_list);
        CHECK(row->offset + row->size <= table->item_size);
    }
}

TEST(a_list_of_items_accepts_the_values_of_their_first_row)
{
    const struct config_option_table *table;
    const struct config_option *row;
    uint32_t count = 0;

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        if (row->items == NULL) {
            continue;
        }
        CHECK(row->kind == row->items->rows[0].kind);
        CHECK_STR(row->items->name, row->name);
        count++;
    }
    CHECK_EQ(count, 3);
}

// The row after `row` in its table that has the same field; NULL: there is none.
static const struct config_option *twin_of(const struct config_option *row,
                                           const struct config_option_table *table)
{
    for (const struct config_option *twin = row + 1; twin < table->rows + table->count; twin++) {
        if (row->items == NULL && twin->items == NULL && row->offset == twin->offset) {
            return twin;
        }
    }
    return NULL;
}

TEST(two_rows_share_a_field_only_as_a_secret_and_its_file)
{
    const struct config_option_table *table;
    const struct config_option *row;
    uint32_t count = 0;

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        const struct config_option *twin = twin_of(row, table);
        CHECK(twin == NULL || row->kind == &config_kind_secret);
        CHECK(twin == NULL || twin->kind == &config_kind_secret_file);
        count += twin != NULL;
    }
    CHECK_EQ(count, 5);
}

static bool is_number(const struct config_option *row)
{
    return row->kind == &config_kind_count || row->kind == &config_kind_size ||
           row->kind == &config_kind_duration;
}

static bool accepts(const struct config_option *row, const char *text)
{
    uint64_t field[2];
    char space[256];
    struct text why = text_over(space, sizeof(space));
    return row->kind->read(row, text, field, &why);
}

TEST(numbers_have_bounds_that_are_accepted_and_defaults_within)
{
    const struct config_option_table *table;
    const struct config_option *row;

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        CHECK_EQ(row->low != NULL && row->high != NULL, is_number(row));
        CHECK_EQ(row->choices != NULL, row->kind == &config_kind_choice);
        CHECK(!row->is_list || row->most > 0);
        CHECK(!is_number(row) || accepts(row, row->low));
        CHECK(!is_number(row) || accepts(row, row->high));
        CHECK(row->is_list || row->fallback == NULL || accepts(row, row->fallback));
    }
}

static uint32_t count_of(const char *text, char byte)
{
    uint32_t count = 0;
    for (const char *at = text; *at != '\0'; at++) {
        count += *at == byte;
    }
    return count;
}

TEST(every_row_explains_itself_in_sentences)
{
    const struct config_option_table *table;
    const struct config_option *row;

    for (uint32_t i = 0; (row = row_at(i, &table)) != NULL; i++) {
        size_t size = strlen(row->help);
        CHECK(size > 20 && row->help[size - 1] == '.');
        CHECK(strstr(row->help, "  ") == NULL && strchr(row->help, '\n') == NULL);
        CHECK_EQ(count_of(row->help, '`') % 2, 0);
    }
}
