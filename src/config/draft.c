// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "config/draft_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

// `name` goes in front, or the flag where it was one.
__attribute__((format(printf, 4, 0))) static void describe(struct config_draft *draft,
                                                           struct config_place place,
                                                           const char *name, const char *format,
                                                           va_list args)
{
    struct config_error *error = draft->error;
    const char *subject = place.flag != NULL ? place.flag : name;

    snprintf(error->file, sizeof(error->file), "%s",
             place.flag != NULL ? "command line" : draft->file);
    error->line = place.line;
    error->column = place.column;
    error->text[0] = '\0';
    if (subject[0] != '\0') {
        snprintf(error->text, sizeof(error->text), "%.80s: ", subject);
    }
    size_t used = strlen(error->text);
    vsnprintf(error->text + used, sizeof(error->text) - used, format, args);
}

enum status config_refuse(struct config_draft *draft, struct config_place place, const char *format,
                          ...)
{
    va_list args;
    va_start(args, format);
    describe(draft, place, "", format, args);
    va_end(args);
    return STATUS_MALFORMED;
}

enum status config_refuse_option(const struct config_binding *binding,
                                 const struct config_option *option, struct config_place place,
                                 const char *format, ...)
{
    char name[config_flag_size_max];
    const char *owner = binding->table->name;

    snprintf(name, sizeof(name), "%s%s%s", owner, owner[0] != '\0' ? "." : "", option->name);
    va_list args;
    va_start(args, format);
    describe(binding->draft, place, name, format, args);
    va_end(args);
    return STATUS_MALFORMED;
}

enum status config_refuse_size(struct config_draft *draft, struct config_place place)
{
    enum status malformed = config_refuse(draft, place, "the configuration holds too many values");
    (void)malformed;
    return STATUS_TOO_LARGE;
}

static struct config_place *place_of_row(const struct config_binding *binding,
                                         const struct config_option *option)
{
    size_t row = (size_t)(option - binding->table->rows);
    ASSERT(row < binding->table->count);
    return &binding->places[row];
}

struct config_place config_place_of(const struct config_binding *binding, const char *name)
{
    if (name == NULL) {
        return binding->places[binding->table->count];
    }
    const struct config_option *option = config_option_find(binding->table, name);
    ASSERT(option != NULL);
    return *place_of_row(binding, option);
}

static void *field_of(const struct config_binding *binding, const struct config_option *option)
{
    ASSERT(option->items == NULL && option->offset + option->size <= binding->table->item_size);
    return (uint8_t *)binding->base + option->offset;
}

// Two rows with one field are two ways to say it.  Said both ways in one place is a contradiction;
// on the command line it replaces what the file says.
static enum status check_twins(const struct config_binding *binding,
                               const struct config_option *option, struct config_place place)
{
    for (uint32_t i = 0; i < binding->table->count; i++) {
        const struct config_option *twin = &binding->table->rows[i];
        if (twin == option || twin->items != NULL || twin->offset != option->offset) {
            continue;
        }
        struct config_place other = binding->places[i];
        if (config_place_is_set(other) && (other.flag != NULL) == (place.flag != NULL)) {
            return config_refuse_option(binding, option, place, "%s is set as well; keep one",
                                        twin->name);
        }
    }
    return STATUS_OK;
}

static enum status draft_read_value(const struct config_binding *binding,
                                    const struct config_option *option,
                                    const struct config_value *value, void *field)
{
    char space[sizeof(binding->draft->error->text)];
    struct text why = text_over(space, sizeof(space));

    if (option->kind->read(option, value->text, field, &why)) {
        return STATUS_OK;
    }
    return config_refuse_option(binding, option, value->place, "%.*s", (int)why.size, space);
}

// Puts the content of a file in the place of its path.
static enum status draft_read_secret(const struct config_binding *binding,
                                     const struct config_option *option,
                                     const struct config_value *value, const char **field)
{
    uint8_t bytes[config_secret_size_max + 2]; // and a line break
    size_t size;
    struct config_draft *draft = binding->draft;

    char path[64];
    struct text quoted = text_over(path, sizeof(path));
    config_quote(&quoted, value->text);

    enum status status = draft->read(value->text, bytes, sizeof(bytes), &size);
    if (status == STATUS_IO) {
        return config_refuse_option(binding, option, value->place, "cannot read %.*s: %s",
                                    (int)quoted.size, path, strerrordesc_np(errno));
    }
    while (status == STATUS_OK && size > 0 &&
           (bytes[size - 1] == '\n' || bytes[size - 1] == '\r')) {
        size--;
    }
    if (status != STATUS_OK || !config_secret_is_sound(slice_of(bytes, size))) {
        return config_refuse_option(binding, option, value->place,
                                    "%.*s must hold 1 to %d visible ASCII characters, without "
                                    "spaces, and nothing else",
                                    (int)quoted.size, path, config_secret_size_max);
    }
    *field = config_memory_copy(&draft->memory, slice_of(bytes, size));
    return *field != NULL ? STATUS_OK : config_refuse_size(draft, value->place);
}

enum status config_assign(const struct config_binding *binding, const struct config_option *option,
                          const struct config_value *value)
{
    ASSERT(!option->is_list);

    void *field = field_of(binding, option);
    enum status status = check_twins(binding, option, value->place);
    if (status == STATUS_OK) {
        status = draft_read_value(binding, option, value, field);
    }
    if (status == STATUS_OK && option->kind == &config_kind_secret_file) {
        status = draft_read_secret(binding, option, value, field);
    }
    if (status == STATUS_OK) {
        *place_of_row(binding, option) = value->place;
    }
    return status;
}

static enum status check_count(const struct config_binding *binding,
                               const struct config_option *option, struct config_place place,
                               uint32_t count)
{
    if (count < option->fewest || count > option->most) {
        return config_refuse_option(binding, option, place,
                                    "takes a list of %u to %u values, not of %u", option->fewest,
                                    option->most, count);
    }
    return STATUS_OK;
}

static enum status check_repeated(const struct config_binding *binding,
                                  const struct config_option *option,
                                  const struct config_value *values, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(values[i].text, values[index].text) == 0) {
            char space[64];
            struct text quoted = text_over(space, sizeof(space));
            config_quote(&quoted, values[index].text);
            return config_refuse_option(binding, option, values[index].place,
                                        "%.*s is in the list twice", (int)quoted.size, space);
        }
    }
    return STATUS_OK;
}

enum status config_assign_list(const struct config_binding *binding,
                               const struct config_option *option, struct config_place place,
                               const struct config_value *values, uint32_t value_count)
{
    ASSERT(option->is_list && option->size == sizeof(struct config_list));

    struct config_list list = {.count = value_count};
    enum status status = check_count(binding, option, place, value_count);
    if (status != STATUS_OK) {
        return status;
    }
    list.items = config_memory_take(&binding->draft->memory, value_count * sizeof(list.items[0]));
    if (list.items == NULL) {
        return config_refuse_size(binding->draft, place);
    }
    for (uint32_t i = 0; i < value_count && status == STATUS_OK; i++) {
        status = draft_read_value(binding, option, &values[i], &list.items[i]);
        if (status == STATUS_OK) {
            status = check_repeated(binding, option, values, i);
        }
    }
    if (status == STATUS_OK) {
        memcpy(field_of(binding, option), &list, sizeof(list));
        *place_of_row(binding, option) = place;
    }
    return status;
}

static enum status assign_default_list(const struct config_binding *binding,
                                       const struct config_option *option)
{
    struct config_value values[16];
    uint32_t count = 0;

    for (const char *at = option->fallback; *at != '\0';) {
        size_t size = strcspn(at, ",");
        char *text = config_memory_copy(&binding->draft->memory, slice_of(at, size));
        if (text == NULL) {
            return config_refuse_size(binding->draft, (struct config_place){0});
        }
        ASSERT(count < ARRAY_COUNT(values));
        values[count++] = (struct config_value){.text = text};
        at += size;
        at += strspn(at, ", ");
    }
    return config_assign_list(binding, option, (struct config_place){0}, values, count);
}

enum status config_assign_defaults(const struct config_binding *binding)
{
    enum status status = STATUS_OK;

    for (uint32_t i = 0; i < binding->table->count && status == STATUS_OK; i++) {
        const struct config_option *option = &binding->table->rows[i];
        if (option->fallback == NULL) {
            continue;
        }
        if (option->is_list) {
            status = assign_default_list(binding, option);
        } else {
            struct config_value value = {.text = option->fallback};
            status = config_assign(binding, option, &value);
        }
    }
    return status;
}

static struct config_items *config_items_of(struct config_draft *draft,
                                            const struct config_option *option)
{
    ASSERT(option->items != NULL && option->size == sizeof(struct config_items));
    return (struct config_items *)(void *)((uint8_t *)draft + option->offset);
}

struct config_binding config_item_binding(struct config_draft *draft,
                                          const struct config_option *option, uint32_t index)
{
    struct config_items *items = config_items_of(draft, option);
    ASSERT(index < items->count);
    return (struct config_binding){
        .draft = draft,
        .table = option->items,
        .base = items->items + (size_t)index * option->items->item_size,
        .places = items->places + (size_t)index * (option->items->count + 1),
    };
}

enum status config_assign_items(struct config_draft *draft, const struct config_option *option,
                                struct config_place place, uint32_t count)
{
    struct config_binding program = config_draft_binding(draft);
    struct config_items *items = config_items_of(draft, option);
    enum status status = check_count(&program, option, place, count);
    if (status != STATUS_OK) {
        return status;
    }

    uint32_t rows = option->items->count + 1;
    struct config_items taken = {
        .items = config_memory_take(&draft->memory, (size_t)count * option->items->item_size),
        .places =
            config_memory_take(&draft->memory, (size_t)count * rows * sizeof(struct config_place)),
        .count = count,
    };
    if (taken.items == NULL || taken.places == NULL) {
        return config_refuse_size(draft, place);
    }
    *items = taken;
    *place_of_row(&program, option) = place;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct config_binding item = config_item_binding(draft, option, i);
        status = config_assign_defaults(&item);
    }
    return status;
}
