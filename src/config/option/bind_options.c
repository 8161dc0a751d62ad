// SPDX-License-Identifier: Apache-2.0

#include "config/option/bind_options.h"

#include "base/base.h"
#include "config/draft_internal.h"
#include "config/option/nearest.h"
#include "config/yaml_tree.h"

#include <stdio.h>

enum { group_count_max = 32, name_size_max = 128 };

static struct config_place place_of_node(const struct config_node *node)
{
    return (struct config_place){.line = node->line, .column = node->column};
}

static void offer_groups(struct config_nearest *nearest)
{
    const struct config_option_group *group;

    for (uint32_t i = 0; (group = config_option_group_at(i)) != NULL; i++) {
        if (group->name[0] != '\0') {
            config_nearest_offer(nearest, group->name);
        }
    }
}

// Says which key was meant: the nearest of those that may stand under `group`, or one of that very
// name that belongs elsewhere.
static enum status refuse_key(const struct config_binding *binding, const char *group,
                              const struct config_node *key)
{
    const struct config_option_table *table = binding->table;
    struct config_nearest nearest = {.word = key->text};
    char hint[name_size_max] = "";
    char space[64];
    struct text quoted = text_over(space, sizeof(space));
    config_quote(&quoted, key->text);

    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->rows[i];
        if (config_option_is_in(option, group)) {
            config_nearest_offer(&nearest, config_option_key(option));
        } else if (strcmp(config_option_key(option), key->text) == 0 ||
                   strcmp(option->name, key->text) == 0) {
            const char *own = config_option_key(option);
            snprintf(hint, sizeof(hint), "; write \"%s\" under \"%.*s\"", own,
                     (int)(own - option->name) - 1, option->name);
        }
    }
    if (table == &config_options && group[0] == '\0') {
        offer_groups(&nearest);
    }
    if (nearest.best != NULL) {
        snprintf(hint, sizeof(hint), "; did you mean \"%s\"?", nearest.best);
    }
    const char *owner = table->name[0] != '\0' ? table->name : group;
    return config_refuse(binding->draft, place_of_node(key), "%s%s%.*s is not an option%s", owner,
                         owner[0] != '\0' ? ": " : "", (int)quoted.size, space, hint);
}

static enum status refuse_blank(const struct config_binding *binding,
                                const struct config_option *option, const struct config_node *node)
{
    return config_refuse_option(binding, option, place_of_node(node),
                                option->is_list
                                    ? "has no value; write [] for an empty list"
                                    : "has no value; leave the key out to keep the default");
}

static enum status bind_text(const struct config_binding *binding,
                             const struct config_option *option, const struct config_node *node)
{
    if (node->kind != CONFIG_NODE_TEXT) {
        return config_refuse_option(binding, option, place_of_node(node),
                                    "takes one value and not a %s",
                                    node->kind == CONFIG_NODE_LIST ? "list" : "map");
    }
    if (node->is_blank) {
        return refuse_blank(binding, option, node);
    }
    struct config_value value = {.text = node->text, .place = place_of_node(node)};
    return config_assign(binding, option, &value);
}

// A list is written as one, or as the one value that it has.
static enum status bind_list(const struct config_binding *binding,
                             const struct config_option *option, const struct config_node *node)
{
    const struct config_node *item = node->kind == CONFIG_NODE_LIST ? node->first : node;
    uint32_t count = node->kind == CONFIG_NODE_LIST ? node->count : 1;
    struct config_place place = place_of_node(node);

    if (node->kind == CONFIG_NODE_MAP) {
        return config_refuse_option(binding, option, place, "takes a list and not a map");
    }
    struct config_value *values =
        config_memory_take(&binding->draft->memory, count * sizeof(*values));
    if (values == NULL) {
        return config_refuse_size(binding->draft, place);
    }
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        if (item->kind != CONFIG_NODE_TEXT) {
            return config_refuse_option(binding, option, place_of_node(item),
                                        "an item of the list is one value");
        }
        if (item->is_blank) {
            return refuse_blank(binding, option, item);
        }
        values[i] = (struct config_value){.text = item->text, .place = place_of_node(item)};
    }
    return config_assign_list(binding, option, place, values, count);
}

static enum status bind_map(const struct config_binding *binding, const char *group,
                            const struct config_node *map);

static enum status bind_item(const struct config_binding *item, const struct config_node *node)
{
    const struct config_option *first = &item->table->rows[0];

    item->places[item->table->count] = place_of_node(node);
    if (node->kind != CONFIG_NODE_MAP) {
        return bind_text(item, first, node);
    }
    enum status status = bind_map(item, "", node);
    if (status == STATUS_OK && !config_place_is_set(item->places[0])) {
        return config_refuse(item->draft, place_of_node(node), "%s: an item needs its %s",
                             item->table->name, first->name);
    }
    return status;
}

static enum status bind_items(const struct config_binding *program,
                              const struct config_option *option, const struct config_node *node)
{
    struct config_draft *draft = program->draft;
    const struct config_node *child = node->kind == CONFIG_NODE_LIST ? node->first : node;
    uint32_t count = node->kind == CONFIG_NODE_LIST ? node->count : 1;

    if (node->kind == CONFIG_NODE_MAP) {
        return config_refuse_option(program, option, place_of_node(node),
                                    "takes a list and not a map");
    }
    if (node->is_blank) {
        return refuse_blank(program, option, node);
    }
    enum status status = config_assign_items(draft, option, place_of_node(node), count);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++, child = child->next) {
        struct config_binding item = config_item_binding(draft, option, i);
        status = bind_item(&item, child);
    }
    return status;
}

static enum status bind_option(const struct config_binding *binding,
                               const struct config_option *option, const struct config_node *key)
{
    struct config_place first = binding->places[option - binding->table->rows];
    if (config_place_is_set(first)) {
        return config_refuse_option(binding, option, place_of_node(key),
                                    "is here twice; the first is on line %u", first.line);
    }
    if (option->items != NULL) {
        return bind_items(binding, option, key->value);
    }
    return option->is_list ? bind_list(binding, option, key->value)
                           : bind_text(binding, option, key->value);
}

static const struct config_option *find_key(const struct config_option_table *table,
                                            const char *group, const char *key)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->rows[i];
        if (config_option_is_in(option, group) && strcmp(config_option_key(option), key) == 0) {
            return option;
        }
    }
    return NULL;
}

static enum status bind_map(const struct config_binding *binding, const char *group,
                            const struct config_node *map)
{
    enum status status = STATUS_OK;

    for (const struct config_node *key = map->first; key != NULL && status == STATUS_OK;
         key = key->next) {
        const struct config_option *option = find_key(binding->table, group, key->text);
        status =
            option != NULL ? bind_option(binding, option, key) : refuse_key(binding, group, key);
    }
    return status;
}

// A group may be left blank: that is what remains when all of its keys are commented out.
static enum status bind_group(const struct config_binding *program, const char *name,
                              const struct config_node *value)
{
    if (value->is_blank) {
        return STATUS_OK;
    }
    if (value->kind != CONFIG_NODE_MAP) {
        return config_refuse(program->draft, place_of_node(value),
                             "%s takes options of its own, one \"name: value\" on a line", name);
    }
    return bind_map(program, name, value);
}

// The index of the group `name`; -1: unknown.
static int find_group(const char *name)
{
    const struct config_option_group *group;

    for (uint32_t i = 0; (group = config_option_group_at(i)) != NULL; i++) {
        if (group->name[0] != '\0' && strcmp(group->name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

enum status config_bind_file(struct config_draft *draft, const struct config_node *root)
{
    struct config_binding program = config_draft_binding(draft);
    uint32_t group_lines[group_count_max] = {0};
    enum status status = STATUS_OK;

    if (root == NULL) {
        return STATUS_OK;
    }
    if (root->kind != CONFIG_NODE_MAP) {
        return config_refuse(draft, place_of_node(root),
                             "a configuration is made of lines \"name: value\"");
    }
    for (const struct config_node *key = root->first; key != NULL && status == STATUS_OK;
         key = key->next) {
        const struct config_option *option = find_key(&config_options, "", key->text);
        int group = find_group(key->text);
        if (option != NULL) {
            status = bind_option(&program, option, key);
        } else if (group == -1) {
            status = refuse_key(&program, "", key);
        } else if (group_lines[group] != 0) {
            status = config_refuse(draft, place_of_node(key),
                                   "%s: is here twice; the first is on line %u", key->text,
                                   group_lines[group]);
        } else {
            group_lines[group] = key->line;
            status = bind_group(&program, key->text, key->value);
        }
    }
    return status;
}

static const char *without_dashes(const char *name)
{
    return strncmp(name, "--", 2) == 0 ? name + 2 : name;
}

static enum status refuse_flag(struct config_draft *draft, struct config_place place)
{
    char space[config_flag_size_max + 64];
    struct text why = text_over(space, sizeof(space));
    config_option_add_unknown(&config_options, place.flag, &why);
    return config_refuse(draft, place, "%.*s", (int)why.size, space);
}

// All values that flags give for `option`, from pair `first` on.
static enum status bind_flag_list(struct config_draft *draft, const struct config_source *source,
                                  uint32_t first, const struct config_option *option,
                                  struct config_place place)
{
    struct config_binding program = config_draft_binding(draft);
    struct config_value *values =
        config_memory_take(&draft->memory, (size_t)(source->value_count - first) * sizeof(*values));
    uint32_t count = 0;

    for (uint32_t i = first; i < source->value_count && values != NULL; i++) {
        if (config_option_find_flag(&config_options,
                                    without_dashes(source->values[2 * (size_t)i])) == option) {
            const char *value = source->values[2 * (size_t)i + 1];
            const char *copy = config_memory_copy(&draft->memory, slice_str(value));
            values[count++] = (struct config_value){.text = copy, .place = place};
            values = copy != NULL ? values : NULL;
        }
    }
    if (values == NULL) {
        return config_refuse_size(draft, place);
    }
    if (option->items == NULL) {
        return config_assign_list(&program, option, place, values, count);
    }
    enum status status = config_assign_items(draft, option, place, count);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct config_binding item = config_item_binding(draft, option, i);
        item.places[item.table->count] = place;
        status = config_assign(&item, &item.table->rows[0], &values[i]);
    }
    return status;
}

static enum status bind_flag(struct config_draft *draft, const struct config_source *source,
                             uint32_t index)
{
    struct config_binding program = config_draft_binding(draft);
    const char *name = without_dashes(source->values[2 * (size_t)index]);
    const char *value = source->values[2 * (size_t)index + 1];

    char *flag = config_memory_take(&draft->memory, strlen(name) + 3);
    const char *text = config_memory_copy(&draft->memory, slice_str(value));
    if (flag == NULL || text == NULL) {
        return config_refuse_size(draft, (struct config_place){0});
    }
    snprintf(flag, strlen(name) + 3, "--%s", name);
    struct config_place place = {.flag = flag};

    const struct config_option *option = config_option_find_flag(&config_options, name);
    if (option == NULL) {
        return refuse_flag(draft, place);
    }
    if (!option->is_list) {
        return config_assign(&program, option,
                             &(struct config_value){.text = text, .place = place});
    }
    if (program.places[option - config_options.rows].flag != NULL) {
        return STATUS_OK; // the first of these flags took them all
    }
    return bind_flag_list(draft, source, index, option, place);
}

enum status config_bind_flags(struct config_draft *draft, const struct config_source *source)
{
    enum status status = STATUS_OK;

    for (uint32_t i = 0; i < source->value_count && status == STATUS_OK; i++) {
        status = bind_flag(draft, source, i);
    }
    return status;
}
