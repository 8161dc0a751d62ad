// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "template/builtin/builtins_internal.h"

static const struct builtin filters[] = {
#define FILTER(name, function) {{(const uint8_t *)(name), sizeof(name) - 1}, function},
#define IS(name, function)
#define METHOD(kind, name, function)
#define NO_FILTER(name)
#include "template/builtin/builtins.def"
#undef FILTER
#undef IS
#undef METHOD
#undef NO_FILTER
};

static const struct builtin tests[] = {
#define FILTER(name, function)
#define IS(name, function) {{(const uint8_t *)(name), sizeof(name) - 1}, function},
#define METHOD(kind, name, function)
#define NO_FILTER(name)
#include "template/builtin/builtins.def"
#undef FILTER
#undef IS
#undef METHOD
#undef NO_FILTER
};

static const struct {
    enum value_kind kind;
    struct builtin builtin;
} methods[] = {
#define FILTER(name, function)
#define IS(name, function)
#define METHOD(kind, name, function)                                                               \
    {VALUE_##kind, {{(const uint8_t *)(name), sizeof(name) - 1}, function}},
#define NO_FILTER(name)
#include "template/builtin/builtins.def"
#undef FILTER
#undef IS
#undef METHOD
#undef NO_FILTER
};

static const char *const missing_filters[] = {
#define FILTER(name, function)
#define IS(name, function)
#define METHOD(kind, name, function)
#define NO_FILTER(name) name,
#include "template/builtin/builtins.def"
#undef FILTER
#undef IS
#undef METHOD
#undef NO_FILTER
};

static const struct builtin *find(const struct builtin *rows, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

const struct builtin *builtin_filter(struct slice name)
{
    return find(filters, ARRAY_COUNT(filters), name);
}

bool builtin_is_filter_name(struct slice name)
{
    bool found = builtin_filter(name) != NULL;
    for (size_t i = 0; i < ARRAY_COUNT(missing_filters) && !found; i++) {
        found = slice_is(name, missing_filters[i]);
    }
    return found;
}

const struct builtin *builtin_test(struct slice name)
{
    return find(tests, ARRAY_COUNT(tests), name);
}

const struct builtin *builtin_method(enum value_kind kind, struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
        if (methods[i].kind == kind && slice_equal(methods[i].builtin.name, name)) {
            return &methods[i].builtin;
        }
    }
    return NULL;
}

static bool bind_named(struct value_room *room, const struct signature *signature,
                       struct slice name, const struct value *argument, const struct value **out)
{
    for (uint32_t i = 0; i < signature->count; i++) {
        if (name.size > 0 && slice_is(name, signature->parameters[i])) {
            if (out[i] != NULL) {
                return value_fail(room, STATUS_MALFORMED,
                                  "%s() got multiple values for argument '%s'", signature->name,
                                  signature->parameters[i]);
            }
            out[i] = argument;
            return true;
        }
    }
    return value_fail(room, STATUS_MALFORMED, "%s() got an unexpected keyword argument '%.*s'",
                      signature->name, (int)(name.size < 40 ? name.size : 40), name.bytes);
}

bool builtin_bind(struct value_room *room, const struct signature *signature,
                  const struct call_arguments *arguments, const struct value **out)
{
    uint32_t placed = arguments->count - arguments->named_count;
    if (placed > signature->count) {
        return value_fail(room, STATUS_MALFORMED, "%s() takes at most %u arguments (%u given)",
                          signature->name, signature->count, placed);
    }
    for (uint32_t i = 0; i < signature->count; i++) {
        out[i] = i < placed ? &arguments->values[i] : NULL;
    }
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        if (!bind_named(room, signature, arguments->names[i], &arguments->values[placed + i],
                        out)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < signature->required; i++) {
        if (out[i] == NULL) {
            return value_fail(room, STATUS_MALFORMED, "%s() misses an argument", signature->name);
        }
    }
    return true;
}

bool builtin_bind_none(struct value_room *room, const char *name,
                       const struct call_arguments *arguments)
{
    if (arguments->count > 0) {
        return value_fail(room, STATUS_MALFORMED, "%s() takes no arguments (%u given)", name,
                          arguments->count);
    }
    return true;
}

bool argument_integer(struct value_room *room, const struct value *argument, int64_t otherwise,
                      int64_t *out)
{
    if (argument == NULL) {
        *out = otherwise;
        return true;
    }
    if (argument->kind != VALUE_INT && argument->kind != VALUE_BOOL) {
        return value_fail(room, STATUS_MALFORMED, "'%s' object cannot be interpreted as an integer",
                          value_type_name(argument));
    }
    *out = argument->kind == VALUE_BOOL ? argument->boolean : argument->integer;
    return true;
}

bool argument_string(struct value_room *room, const struct value *argument, struct slice *out)
{
    if (argument->kind != VALUE_STRING) {
        return value_fail(room, STATUS_MALFORMED, "must be str, not %s", value_type_name(argument));
    }
    *out = argument->string;
    return true;
}

bool argument_is_true(const struct value *argument)
{
    return argument != NULL && value_is_true(argument);
}

bool argument_is_given(const struct value *argument)
{
    return argument != NULL && argument->kind != VALUE_NONE;
}

bool builtin_refuse_markup(struct value_room *room, const struct value *value)
{
    if (value->kind == VALUE_STRING && value->markup) {
        return value_fail(room, STATUS_MALFORMED,
                          "what is marked as safe would escape its arguments; not implemented");
    }
    return true;
}

static bool is_digits(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
    }
    return text.size > 0;
}

static bool find_in_space(const struct value_space *space, struct slice name, struct value *out)
{
    for (uint32_t i = 0; i < space->count; i++) {
        if (slice_equal(space->members[i].key.string, name)) {
            *out = space->members[i].value;
            return true;
        }
    }
    return false;
}

// item[part] where there is one, else item.part, else undefined.
static bool find_by_name(struct value_room *room, const struct value *item, struct slice name,
                         struct value *out)
{
    const struct value *found = item->kind == VALUE_DICT ? value_dict_get(item->dict, name) : NULL;
    if (found != NULL) {
        *out = *found;
        return true;
    }
    if (item->kind == VALUE_NAMESPACE && find_in_space(item->space, name, out)) {
        return true;
    }
    if (builtin_method(item->kind, name) != NULL || (name.size > 0 && name.bytes[0] == '_') ||
        item->kind == VALUE_CALLABLE) {
        return value_fail(room, STATUS_MALFORMED, "attribute '%.*s' of '%s' is not implemented",
                          (int)(name.size < 40 ? name.size : 40), name.bytes,
                          value_type_name(item));
    }
    *out = value_undefined(name);
    return true;
}

static bool find_by_index(struct value_room *room, const struct value *item, int64_t index,
                          struct value *out)
{
    struct value key = value_int(index);
    const struct value *found = NULL;
    uint32_t length = 0;
    *out = value_undefined(slice_str("element"));
    switch (item->kind) {
    case VALUE_DICT:
        if (!value_dict_find(room, item->dict, &key, &found)) {
            return false;
        }
        *out = found != NULL ? *found : *out;
        return true;
    case VALUE_STRING:
    case VALUE_LIST:
    case VALUE_TUPLE:
        break;
    default:
        return true;
    }
    if (!value_length(room, item, &length)) {
        return false;
    }
    index += index < 0 ? length : 0;
    if (index < 0 || index >= length) {
        return true;
    }
    if (item->kind == VALUE_STRING) {
        size_t at = (size_t)index;
        *out = value_string(value_string_part(item->string, at, at + 1));
        out->markup = item->markup;
    } else {
        *out = item->list->items[index];
    }
    return true;
}

static bool find_part(struct value_room *room, const struct value *item, struct slice part,
                      struct value *out)
{
    uint64_t index = 0;
    if (item->kind == VALUE_UNDEFINED) {
        return value_fail(room, STATUS_MALFORMED, "'%.*s' is undefined",
                          (int)(item->name.size < 40 ? item->name.size : 40), item->name.bytes);
    }
    if (!is_digits(part)) {
        return find_by_name(room, item, part, out);
    }
    if (!slice_parse_u64(part, &index) || index > INT32_MAX) {
        *out = value_undefined(part);
        return true;
    }
    return find_by_index(room, item, (int64_t)index, out);
}

bool builtin_attribute(struct value_room *room, const struct value *item,
                       const struct value *attribute, const struct value *otherwise,
                       struct value *out)
{
    struct value found = *item;
    if (!value_step(room, 1)) {
        return false;
    }
    if (!argument_is_given(attribute)) {
        *out = found;
        return true;
    }
    bool replaces = argument_is_given(otherwise);
    if (attribute->kind != VALUE_STRING) {
        int64_t index = 0;
        if (item->kind == VALUE_UNDEFINED || !argument_integer(room, attribute, 0, &index)) {
            return value_fail(room, STATUS_MALFORMED, "an item is undefined");
        }
        if (!find_by_index(room, item, index, &found)) {
            return false;
        }
        *out = replaces && found.kind == VALUE_UNDEFINED ? *otherwise : found;
        return true;
    }
    struct slice rest = attribute->string;
    for (bool more = true; more;) {
        size_t dot = place_of(rest, slice_str("."));
        struct slice part = dot == PLACE_NONE ? rest : slice_of(rest.bytes, dot);
        struct value next = value_none();
        if (!find_part(room, &found, part, &next)) {
            return false;
        }
        found = replaces && next.kind == VALUE_UNDEFINED ? *otherwise : next;
        more = dot != PLACE_NONE;
        rest = more ? slice_of(rest.bytes + dot + 1, rest.size - dot - 1) : rest;
    }
    *out = found;
    return true;
}
